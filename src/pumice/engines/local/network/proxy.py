"""A proxy in the engine for outbound traffic where neither pasta nor slirp4netns works.

It serves HTTP (CONNECT, and plain requests with a full URL) and SOCKS 5 on one port, distinguished by the first byte.
It does not connect to the host's loopback, because servers there trust everyone on the machine. Unless the user says
`--network all`, it also refuses link-local and metadata addresses, which give the credentials of a cloud machine to
every caller, and the machine's own, where services often trust all who reach them. Connections are limited, so that no
pod takes them all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pumice.engines.local.network.relay import Server, Stream, relay

_SOCKS = 5
_SOCKS_CONNECT = 1
_SOCKS_IPV4, _SOCKS_NAME, _SOCKS_IPV6 = 1, 3, 4
_SOCKS_OK, _SOCKS_REFUSED, _SOCKS_UNREACHABLE, _SOCKS_NO_COMMAND = 0, 2, 4, 7
_HTTP_PORT = 80
_OWN_HEADERS = (b"proxy-", b"connection:", b"keep-alive:")
# Limits of connections, and seconds until a silent one is ended.
_MOST = 480
_MOST_OF_ONE = 128
_HEAD = 60.0
_IDLE = 900.0
Permits = Callable[[str], bool]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LINK_LOCAL: Final = "169.254.0.0/16"
# The metadata services of Alibaba, Azure and Oracle; those of AWS and Google are link-local, or IPv6.
_METADATA: Final = ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")
_NETWORKS: Final = tuple(
    map(ipaddress.ip_network, (_LINK_LOCAL, *_METADATA, "fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"))
)
# A gateway to IPv4 (RFC 6052): the last 32 bits are an IPv4 address.
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_ROUTE: Final = re.compile(r"\|-- (\S+)\n\s+/32 host LOCAL")
_ROUTES: Final = Path("/proc/self/net/fib_trie")
_IPV6: Final = Path("/proc/self/net/if_inet6")


def own_addresses(routes: Path = _ROUTES, ipv6: Path = _IPV6) -> set[Address]:
    """Return the addresses of this machine's interfaces, in this network namespace."""
    found: set[Address] = set()
    if routes.exists():
        found |= set(map(ipaddress.ip_address, _LOCAL_ROUTE.findall(routes.read_text())))
    if ipv6.exists():
        found |= {ipaddress.IPv6Address(int(line.split()[0], 16)) for line in ipv6.read_text().splitlines()}
    return found


def refused_networks() -> list[str]:
    """Return the IPv4 networks that the tunnel programs must not reach. Loopback they do not reach anyway."""
    own = sorted(str(each) for each in own_addresses() if each.version == ipaddress.IPv4Address(0).version)
    return [_LINK_LOCAL, *_METADATA, *(f"{each}/32" for each in own if not each.startswith("127."))]


def is_loopback(address: str) -> bool:
    ip = _plain(address)
    return ip.is_loopback or ip.is_unspecified


def outside(address: str) -> bool:
    """Return whether pods may reach an address by default: not if it is link-local, of metadata, or this machine's."""
    ip = _plain(address)
    return not (is_loopback(address) or any(ip in network for network in _NETWORKS) or ip in own_addresses())


def _plain(address: str) -> Address:
    """Return the IPv4 address that an IPv6 address may stand for."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
    return ip.ipv4_mapped or embedded or ip


class ForbiddenError(OSError):
    """The proxy does not connect to this host."""


class Proxy:
    def __init__(self, listener: socket.socket, permits: Permits = outside) -> None:
        self._permits = permits
        # Each connection takes two descriptors of this process, which needs more of them for the pods.
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST if soft == resource.RLIM_INFINITY else min(_MOST, soft // 4)
        self._server = Server(listener, self._serve, most=most, most_of_one=_MOST_OF_ONE)
        self.start = self._server.start
        self.close = self._server.close

    async def _serve(self, client: Stream) -> None:
        async with asyncio.timeout(_HEAD) as deadline:
            first = await client.reader.readexactly(1)
            answer = self._socks(client) if first[0] == _SOCKS else self._http(client, first)
            server = await answer
            deadline.reschedule(None)
            if server is not None:
                await relay(client, server, idle=_IDLE)

    async def _http(self, client: Stream, first: bytes) -> Stream | None:
        """Return the connection to the server; None, after an answer, if there is none."""
        head = first + await client.reader.readuntil(b"\r\n\r\n")
        request, *headers = head[:-4].split(b"\r\n")
        try:
            method, target, version = request.decode("ascii").split(" ")
            (host, port), path = _target(method, target)
        except ValueError:
            await _respond(client, "400 Bad Request", "this is a proxy: CONNECT host:port, or a full http:// URL")
            return None
        try:
            server = await self._connect(host, port)
        except ForbiddenError as error:
            await _respond(client, "403 Forbidden", str(error))
            return None
        except OSError as error:
            await _respond(client, "502 Bad Gateway", f"{host}:{port}: {error.strerror or error}")
            return None
        if method == "CONNECT":
            client.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            # One request per connection: the next could be for another server.
            kept = [header for header in headers if not header.lower().startswith(_OWN_HEADERS)]
            lines = [f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""]
            server.writer.write(b"\r\n".join(lines))
        return server

    async def _socks(self, client: Stream) -> Stream | None:
        reader, writer = client
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(bytes((_SOCKS, 0)))
        _, command, _, kind = await reader.readexactly(4)
        host = await _socks_host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
        answer, server = _SOCKS_NO_COMMAND, None
        if command == _SOCKS_CONNECT:
            try:
                server = await self._connect(host, port)
                answer = _SOCKS_OK
            except ForbiddenError:
                answer = _SOCKS_REFUSED
            except OSError:
                answer = _SOCKS_UNREACHABLE
        writer.write(bytes((_SOCKS, answer, 0, _SOCKS_IPV4, 0, 0, 0, 0, 0, 0)))
        await writer.drain()
        return server

    async def _connect(self, host: str, port: int) -> Stream:
        """Resolve the name once, so that the address that is checked is the one that is connected to."""
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (UnicodeError, OverflowError) as error:
            raise OSError(f"invalid host name or port: {error}") from error
        addresses = [str(entry[4][0]) for entry in found if self._permits(str(entry[4][0]))]
        if not addresses and all(is_loopback(str(entry[4][0])) for entry in found):
            raise ForbiddenError(f"{host} resolves to this machine; pods may not reach the host's loopback")
        if not addresses:
            raise ForbiddenError(
                f"{host}: an address of this machine, link-local or of metadata: --network all opens it"
            )
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
