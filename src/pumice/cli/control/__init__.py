"""The commands that start, change and remove runs."""
