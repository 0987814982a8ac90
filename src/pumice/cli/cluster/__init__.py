"""Commands that serve, check or set up a Kubernetes cluster."""
