"""The Kubernetes engine: Pumice as controller and webhook of a real cluster, whose API server is the only store."""
