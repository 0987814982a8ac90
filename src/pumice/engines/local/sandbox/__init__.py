"""Namespaces, mounts, processes: all that touches the kernel. Standard library only; knows nothing of jobs."""
