"""Images without a registry: archives and directories, unpacked into a store of the user."""
