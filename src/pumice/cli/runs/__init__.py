"""The commands that show runs. Each parses its arguments, calls the client and prints what it returns."""
