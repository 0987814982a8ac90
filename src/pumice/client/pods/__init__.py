"""What a client does in a pod: run commands, copy files."""
