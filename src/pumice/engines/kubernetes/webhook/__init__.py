"""The admission webhook: sets defaults, checks Jobs for the API server, and manages its own certificates."""
