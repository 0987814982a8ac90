"""What the kernel of this machine permits, and the command that grants what it refuses."""
