"""Pods as plain processes, for machines that refuse namespaces (`--isolation process`)."""
