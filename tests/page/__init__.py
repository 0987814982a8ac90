"""One browser for all tests of this folder: fixtures of a package end with its last test."""
