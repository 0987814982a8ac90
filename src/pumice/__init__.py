"""Pumice: Volcano Jobs, light enough to run anywhere."""
