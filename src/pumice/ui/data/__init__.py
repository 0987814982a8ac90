"""Reads the values of the page from the store."""
