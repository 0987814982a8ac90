"""Replaces the database of examples/depends-on.yaml: counts the files that `psql` sends to it."""

import itertools
import socketserver

numbers = itertools.count(1)


class Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if file := self.rfile.readline().decode().strip():  # a probe connects and sends nothing
            self.wfile.write(f"{file} is request {next(numbers)}\n".encode())


print("the database accepts connections on port 5432", flush=True)
with socketserver.TCPServer(("", 5432), Session) as server:
    server.serve_forever()
