"""The admission webhook: defaults and checks for Jobs, asked by the API server, with certificates of its own."""
