"""The cluster as the controller knows it: informers, stores and decoding."""
