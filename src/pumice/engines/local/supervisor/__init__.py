"""Runs that other processes can reach: the control socket of a run, and the process of a detached run."""
