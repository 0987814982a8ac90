"""Commands, files and ports of pods on a cluster."""
