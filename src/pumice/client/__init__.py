"""Runs for programs: start, list, watch and change them. The command line is a client of this package."""
