"""`pumice install --check`."""
