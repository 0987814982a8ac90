"""Draws the parts of the page: pure functions from values to HTML."""
