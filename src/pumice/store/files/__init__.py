"""The files of runs on a disk: created, locked, found, listed and removed."""
