"""Runs, as programs see them: list, watch, stop and change them. The command line is a client of this package."""
