"""Builds the specs of containers from pod manifests, images and this machine."""
