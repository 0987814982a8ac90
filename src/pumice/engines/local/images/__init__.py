"""Images from archives and directories, unpacked into the user's store."""
