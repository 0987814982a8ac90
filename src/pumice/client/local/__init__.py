"""Runs on this machine: the implementation of the port."""
