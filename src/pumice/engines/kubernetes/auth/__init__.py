"""Where the API server is and which credentials to present."""
