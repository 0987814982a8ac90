"""A proxy in the engine for outbound traffic where neither pasta nor slirp4netns works.

It serves HTTP (CONNECT, and plain requests with a full URL) and SOCKS 5 on one port, distinguished by the first byte.
It does not connect to the host's loopback: servers there trust everyone on the machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from pumice.engines.local.network.relay import Server, Stream, relay

_SOCKS = 5
_SOCKS_CONNECT = 1
_SOCKS_IPV4, _SOCKS_NAME, _SOCKS_IPV6 = 1, 3, 4
_SOCKS_OK, _SOCKS_REFUSED, _SOCKS_UNREACHABLE, _SOCKS_NO_COMMAND = 0, 2, 4, 7
_HTTP_PORT = 80
_OWN_HEADERS = (b"proxy-", b"connection:", b"keep-alive:")

Permits = Callable[[str], bool]


class ForbiddenError(OSError):
    """The proxy does not connect to this host."""


def outside(address: str) -> bool:
    """Return whether an address is not the host itself."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    ip = mapped if mapped is not None else ip
    return not (ip.is_loopback or ip.is_unspecified)


class Proxy:
    def __init__(self, listener: socket.socket, permits: Permits = outside) -> None:
        self._permits = permits
        self._server = Server(listener, self._serve)
        self.start = self._server.start
        self.close = self._server.close

    async def _serve(self, client: Stream) -> None:
        first = await client.reader.readexactly(1)
        if first[0] == _SOCKS:
            await self._socks(client)
        else:
            await self._http(client, first)

    async def _http(self, client: Stream, first: bytes) -> None:
        head = first + await client.reader.readuntil(b"\r\n\r\n")
        request, *headers = head[:-4].split(b"\r\n")
        try:
            method, target, version = request.decode("ascii").split(" ")
            (host, port), path = _target(method, target)
        except ValueError:
            await _respond(client, "400 Bad Request", "this is a proxy: CONNECT host:port, or a full http:// URL")
            return
        try:
            server = await self._connect(host, port)
        except ForbiddenError as error:
            await _respond(client, "403 Forbidden", str(error))
            return
        except OSError as error:
            await _respond(client, "502 Bad Gateway", f"{host}:{port}: {error.strerror or error}")
            return
        if method == "CONNECT":
            client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            # One request per connection: the next could be for another server.
            kept = [header for header in headers if not header.lower().startswith(_OWN_HEADERS)]
            lines = [f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""]
            server.writer.write(b"\r\n".join(lines))
        await relay(client, server)

    async def _socks(self, client: Stream) -> None:
        reader, writer = client
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(bytes((_SOCKS, 0)))
        _, command, _, kind = await reader.readexactly(4)
        host = await _socks_host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
        answer = _SOCKS_NO_COMMAND
        if command == _SOCKS_CONNECT:
            try:
                server = await self._connect(host, port)
                answer = _SOCKS_OK
            except ForbiddenError:
                answer = _SOCKS_REFUSED
            except OSError:
                answer = _SOCKS_UNREACHABLE
        writer.write(bytes((_SOCKS, answer, 0, _SOCKS_IPV4, 0, 0, 0, 0, 0, 0)))
        if answer == _SOCKS_OK:
            await relay(client, server)
        else:
            await writer.drain()

    async def _connect(self, host: str, port: int) -> Stream:
        """Resolve the name once, so that the address that is checked is the one that is connected to."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (UnicodeError, OverflowError) as error:
            raise OSError(f"invalid host name or port: {error}") from error
        addresses = [str(entry[4][0]) for entry in found if self._permits(str(entry[4][0]))]
        if not addresses:
            raise ForbiddenError(f"{host} resolves to this machine; pods may not reach the host's loopback")
        failure = OSError()
        for address in addresses:
            try:
                return Stream(*await asyncio.open_connection(address, port))
            except OSError as error:
                failure = error
        raise failure


def _target(method: str, target: str) -> tuple[tuple[str, int], str]:
    """Return host and port of a request, and its path. Raises ValueError."""
    parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
    if not parts.hostname or (method == "CONNECT") != (parts.port is not None and not parts.scheme):
        raise ValueError(target)
    if method != "CONNECT" and parts.scheme != "http":
        raise ValueError(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return (parts.hostname, _HTTP_PORT if parts.port is None else parts.port), path


async def _socks_host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == _SOCKS_IPV4:
        return socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
    if kind == _SOCKS_IPV6:
        return socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))
    if kind == _SOCKS_NAME:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    raise ValueError(f"SOCKS address type {kind}")


async def _respond(client: Stream, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    client.writer.write(head.encode() + body)
    await client.writer.drain()
