"""Access control of the page: only the browser of the user that started it gets an answer.

The server listens on loopback only. A random token, which is printed once, is exchanged for a cookie. Other origins,
other names of this host and requests without the cookie get an empty 403; only a browser that opens a page without the
cookie reads what to do. On Linux, connections of other users of the machine are refused before that, by the owner that
/proc/net/tcp shows, even if they have read the token.
"""

from __future__ import annotations

import os
import secrets
import socket
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from pumice.ui.pages import draw

OPEN: Final = "/open"  # the path that takes the token
COOKIE: Final = "pumice"
TOKEN_HEADER: Final = "X-Pumice-Token"  # noqa: S105 - the name of a header
TOKEN_FIELD: Final = "token"  # noqa: S105 - the name of a field
_TOKEN_BYTES: Final = 32
_A_WEEK: Final = 7 * 24 * 3600
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED, _LISTENS = "01", "0A"
_COLUMNS: Final = 8
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, a form without the script would not name its origin.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "pumice",
}

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:34em;margin:4em auto;padding:0 1em}"
)
_STYLE_HASH: Final = "sha256-" + b64encode(sha256(_STYLE.encode()).digest()).decode()


@dataclass(slots=True)
class Gate:
    """`rate` returns False when requests come too fast. Requests that are refused do not count."""

    port: int = 0
    rate: Callable[[], bool] = lambda: True
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))
    _cookie: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(_TOKEN_BYTES))

    @property
    def address(self) -> str:
        """The address that is printed, with the token. It works once."""
        return f"http://127.0.0.1:{self.port}{OPEN}?token={self._token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not peer_is_allowed(request) or request.headers.get("Host") not in self.hosts:
            return refused()
        if request.path == OPEN:
            return self._exchange(request)
        if not self._is_known(request) or not self._is_own_origin(request):
            return needs_token() if self._is_opened(request) else refused()
        if not self.rate():
            return web.Response(status=429, headers=HEADERS)
        if request.method not in ("GET", "HEAD") and not await self._may_post(request):
            return refused()
        try:
            response = await handler(request)
        except web.HTTPException as error:
            # Unknown paths and methods.
            response = web.Response(status=error.status)
        if not response.prepared:
            response.headers.update({**HEADERS, **response.headers})
        return response

    def _exchange(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for the cookie, once. A browser that has the cookie already is redirected."""
        given = request.query.get(TOKEN_FIELD, "")
        if request.method != "GET":
            return refused()
        if not self._is_known(request):
            if not self._token or not _same(given, self._token):
                return needs_token() if self._is_opened(request) else refused()
            self._token = ""
        if request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
            response = web.Response(status=303, headers={**HEADERS, "Location": "/"})
        else:
            response = web.Response(text=draw("opened"), content_type="text/html", headers=HEADERS)
        response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="Strict", path="/", max_age=_A_WEEK)
        return response

    def _is_opened(self, request: web.Request) -> bool:
        """Whether a person opens a page by its address, or from a page of this server."""
        said = request.headers
        opened = (said.get("Sec-Fetch-Mode"), said.get("Sec-Fetch-Dest")) == ("navigate", "document")
        return opened and request.method == "GET" and self._is_own_origin(request)

    def _is_known(self, request: web.Request) -> bool:
        return _same(request.cookies.get(COOKIE, ""), self._cookie)

    def _is_own_origin(self, request: web.Request) -> bool:
        origin = request.headers.get("Origin")
        own = origin is None or origin in (f"http://{host}" for host in self.hosts)
        return own and request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    async def _may_post(self, request: web.Request) -> bool:
        """A request that changes something names its origin and has the token of the page."""
        if request.method != "POST" or request.headers.get("Origin") != f"http://{request.headers.get('Host')}":
            return False
        given = request.headers.get(TOKEN_HEADER, "")
        if not given and request.content_type == "application/x-www-form-urlencoded":
            try:
                given = str((await request.post()).get(TOKEN_FIELD, ""))
            except (ValueError, LookupError, OSError, web.RequestPayloadError):
                return False  # it is no form, or does not arrive
        return _same(given, self.form_token)


def _same(given: str, secret: str) -> bool:
    # What a browser sends may be no text: its bytes arrive as halves of characters.
    return compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def needs_token() -> web.Response:
    """Return a page that says how to get one that is answered. It says nothing about what there is."""
    policy = f"default-src 'none'; style-src '{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
    headers = {**HEADERS, "Content-Security-Policy": policy, "Connection": "close"}
    return web.Response(text=draw("needs_token", style=_STYLE), content_type="text/html", status=403, headers=headers)


def refused() -> web.Response:
    """Return an answer without content: it does not show whether the path exists."""
    return web.Response(status=403, headers={**HEADERS, "Connection": "close"})


def peer_is_allowed(request: web.Request) -> bool:
    """Whether a connection comes from a process of this user, or of root. True if its owner is unknown."""
    transport = request.transport
    if transport is None:
        return False
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if here is None or there is None:
        return False
    return connection_is_allowed((there[0], there[1]), (here[0], here[1]))


def connection_is_allowed(
    client: tuple[str, int], server: tuple[str, int], tables: tuple[Path, ...] = _TABLES, uid: int | None = None
) -> bool:
    rows = [row for table in tables for row in _rows(table)]
    if not any(row[0] == _encoded(server) and row[2] == _LISTENS for row in rows):
        # There is no such table, as on macOS, or it is not the table of this network.
        return True
    own = os.getuid() if uid is None else uid
    pair = (_encoded(client), _encoded(server), _ESTABLISHED)
    return any(row[:3] == pair and row[3] in (own, 0) for row in rows)


def _rows(table: Path) -> Iterator[tuple[str, str, str, int]]:
    """Yield local address, remote address, state and uid of the connections."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except (OSError, ValueError):
        return
    for line in lines:
        words = line.split()
        if len(words) >= _COLUMNS and words[7].isdecimal():
            yield words[1], words[2], words[3], int(words[7])


def _encoded(address: tuple[str, int]) -> str:
    """Return an IPv4 address as the kernel writes it: `0100007F:1F90`."""
    return f"{socket.inet_aton(address[0])[::-1].hex().upper()}:{address[1]:04X}"


@dataclass(slots=True)
class Rate:
    """At most so many requests a second on average, and `burst` at once."""

    clock: Callable[[], float]
    per_second: float = 200.0
    burst: float = 400.0
    _left: float = 400.0
    _last: float = 0.0

    def __call__(self) -> bool:
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._last) * self.per_second)
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
