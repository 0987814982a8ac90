"""Replaces the database of examples/depends-on.yaml: counts what query.py sends to it."""

import itertools
import socketserver

numbers = itertools.count(1)


class Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if text := self.rfile.readline().decode().strip():  # a probe connects and sends nothing
            self.wfile.write(f"{text} is request {next(numbers)}\n".encode())


print("the database accepts connections on port 5432", flush=True)
with socketserver.ThreadingTCPServer(("", 5432), Session) as server:
    server.serve_forever()
