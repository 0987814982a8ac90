"""The options of a run: from flags, from keyword arguments, from `pumice.toml` and from the user's own settings."""
