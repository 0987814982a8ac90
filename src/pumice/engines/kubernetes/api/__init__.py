"""The client of the API server: connections, requests, paged lists, watches, errors."""
