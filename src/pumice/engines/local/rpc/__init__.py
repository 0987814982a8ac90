"""One call between processes: requests, answers, announcements, and file descriptors. Standard library only."""
