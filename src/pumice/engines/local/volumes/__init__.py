"""Volumes of pods as directories of this machine."""
