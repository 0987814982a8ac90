"""Replaces the programs of the examples on policies, restarts and partitions: works for two seconds and succeeds."""

import socket
import time

print(f"{socket.gethostname()} works for 2 seconds", flush=True)
time.sleep(2)
