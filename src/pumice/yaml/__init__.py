"""YAML: reading with line numbers and limits, and writing as kubectl prints it."""
