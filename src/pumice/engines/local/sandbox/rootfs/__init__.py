"""The root file system of a container."""
