"""Fetches images from registries by the OCI distribution protocol."""
