"""How to reach the API server: kubeconfig, service account, credentials, TLS."""
