"""The command line: it parses arguments and prints; each command has a module."""
