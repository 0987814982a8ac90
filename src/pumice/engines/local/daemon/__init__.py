"""What the service and the supervisors of runs share: sockets, their protocol, and the start in the background."""
