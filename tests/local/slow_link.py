"""A connection to a server that carries so many bytes and then stalls, until it is told to go on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class SlowLink:
    server: str
    limit: int  # bytes from the server
    address: str = ""
    carried: int = 0
    stalled: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def carry(self, client: socket.socket) -> None:
        host, _, port = self.server.partition(":")
        with client, socket.create_connection((host, int(port))) as server:
            back = threading.Thread(target=self._to_client, args=(server, client))
            back.start()
            _copy(client, server)
            back.join()

    def _to_client(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(16384):
                with self._lock:
                    self.carried += len(data)
                    over = self.carried > self.limit
                if over:
                    self.stalled.set()
                    self.goes_on.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def slow_link(server: str, limit: int) -> Iterator[SlowLink]:
    """Listen on a loopback address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = SlowLink(server, limit, f"127.0.0.1:{listener.getsockname()[1]}")
        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threads.append(threading.Thread(target=link.carry, args=(client,)))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield link
        finally:
            link.goes_on.set()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()
