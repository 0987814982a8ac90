"""Submits Jobs to a cluster, with their code and what else they need, and follows them."""
