"""What should be, given what is. Pure."""
