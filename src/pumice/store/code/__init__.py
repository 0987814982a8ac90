"""The code of a run: which files it is, what is recorded of it, what changed since, and how it comes back."""
