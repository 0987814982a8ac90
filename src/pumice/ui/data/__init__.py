"""What the page shows, read from the store: values of one run each, or of all."""
