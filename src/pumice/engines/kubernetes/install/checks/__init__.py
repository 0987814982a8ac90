"""The checks of `pumice install --check`."""
