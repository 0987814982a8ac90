"""A proxy for https that leads every name to one server, and records what it is asked for."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def connect_proxy(server: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return the address of the proxy, and the requests as pairs of target and Proxy-Authorization."""
    host, _, port = server.partition(":")
    requests: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            requests.append((self.path, self.headers.get("Proxy-Authorization", "")))
            with socket.create_connection((host, int(port))) as upstream:
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                other = {self.connection: upstream, upstream: self.connection}
                with suppress(OSError):
                    while True:
                        for source in select.select(list(other), [], [])[0]:
                            data = source.recv(65536)
                            if not data:
                                return
                            other[source].sendall(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"127.0.0.1:{proxy.server_address[1]}", requests
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
