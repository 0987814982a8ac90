"""Starts `pumice ui` as a user does, in a child of this process, and asks it what a browser would ask."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp.web_urldispatcher import Resource

from pumice.cli.main import main
from tests.golden.dom import form_token
from tests.patience import PATIENCE

BEAT = b"event: beat\n"
TOO_MANY = 429


@dataclass(slots=True)
class Page:
    """`routes` are those of the server: method and path."""

    port: int
    routes: frozenset[tuple[str, str]]
    cookie: str = ""
    token: str = ""
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        self._connection.connect()

    def close(self) -> None:
        self._connection.close()

    def without_cookie(self) -> Page:
        """Return the page as a browser sees it that opens it without its token."""
        return Page(self.port, self.routes)

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Return status, text and headers; a server that is asked too fast is asked again."""
        while True:
            self._connection.request(method, path, headers={"Cookie": self.cookie, **headers})
            # Otherwise the second half of a small answer waits 40 ms for the acknowledgement of the first.
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            answer = self._connection.getresponse()
            text = answer.read().decode()
            if answer.status != TOO_MANY:
                return answer.status, text, dict(answer.getheaders())
            time.sleep(0.1)

    def post(self, path: str) -> tuple[int, str, dict[str, str]]:
        return self.ask("POST", path, Origin=f"http://127.0.0.1:{self.port}", **{"X-Pumice-Token": self.token})

    def stream(self, path: str) -> str:
        """Return the events of a stream up to the first beat, which comes when there is no news."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer, lines = connection.getresponse(), list[bytes]()
        while BEAT not in lines or lines[-1] != b"\n":
            lines.append(answer.readline())
        connection.close()
        return b"".join(lines).decode()


@contextmanager
def open_page(directory: Path) -> Iterator[Page]:
    """Yield the page; `directory` takes what the server prints."""
    directory.mkdir()
    printed, routes = directory / "address", directory / "routes"
    printed.touch()
    child = os.fork()
    if child == 0:
        _serve(printed, routes)
    try:
        page = _enter(printed, routes)
        try:
            yield page
        finally:
            page.close()
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _serve(printed: Path, routes: Path) -> None:
    """Run the command, which notes its routes; never return."""
    add = Resource.add_route

    def noted(self: Resource, method: str, *more: Any, **options: Any) -> Any:
        with routes.open("a") as file:
            file.write(f"{method} {self.canonical}\n")
        return add(self, method, *more, **options)

    read = Path.read_text

    def read_text(path: Path, *more: Any, **options: Any) -> str:
        if path.is_relative_to("/proc/net"):
            # As on a system without it: to read it takes longer than to answer, on a machine of many connections.
            raise FileNotFoundError(path)
        return read(path, *more, **options)

    # In a child that does nothing else.
    Resource.add_route = noted  # type: ignore[method-assign]
    Path.read_text = read_text  # type: ignore[method-assign,assignment]
    code = 1
    try:
        sys.stdout = sys.stderr = printed.open("w", buffering=1)
        code = main(["ui", "--no-open"])
    finally:
        os._exit(code)


def _enter(printed: Path, routes: Path) -> Page:
    """Exchange the token of the address for the cookie."""
    deadline = time.monotonic() + PATIENCE
    while not (text := printed.read_text()).count("\n"):
        assert time.monotonic() < deadline, "pumice ui prints no address"
        time.sleep(0.01)
    address = urlsplit(text.split()[0])
    noted = (tuple(line.split()) for line in routes.read_text().splitlines())
    known = frozenset((method, path) for method, path in noted if method != "HEAD")
    page = Page(address.port or 0, known)
    _, _, headers = page.ask("GET", f"{address.path}?{address.query}")
    page.cookie = headers["Set-Cookie"].partition(";")[0]
    page.token = form_token(page.ask("GET", "/")[1])
    return page
