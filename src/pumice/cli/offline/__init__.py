"""Commands that contact nothing: they read files and print."""
