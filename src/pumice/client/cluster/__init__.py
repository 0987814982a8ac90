"""The port to the Jobs of a Kubernetes cluster, read-only: needs nothing on the cluster but Volcano's Job API."""
