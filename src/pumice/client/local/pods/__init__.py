"""Commands, files and ports of the pods of this machine."""
