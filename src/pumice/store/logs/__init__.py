"""The logs of containers in the directory of a run: plain text beside an index, written by one process, read by any."""
