"""The client of the API server: connections, requests, watches, lists in pages, errors."""
