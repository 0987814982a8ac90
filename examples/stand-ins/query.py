"""Replaces the client of examples/depends-on.yaml, `query.py HOST TEXT`: sends a text and prints the answer."""

import socket
import sys

host, text = sys.argv[1:]
with socket.create_connection((host, 5432), timeout=30) as database:
    database.sendall(f"{text}\n".encode())
    print(database.makefile().readline().strip())
