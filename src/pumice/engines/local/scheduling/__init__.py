"""Decides which pods fit this machine, and which CPUs and GPUs each of them gets."""
