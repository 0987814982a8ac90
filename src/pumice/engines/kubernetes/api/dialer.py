"""Opens connections to the one server that a client talks to: TCP and TLS, straight or through a proxy."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from http import HTTPStatus
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from pumice.engines.kubernetes.api.connection import Connection
from pumice.engines.kubernetes.api.http1 import encoded_fields, encoded_request
from pumice.engines.kubernetes.auth.access import Access

_PATIENCE: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}


async def dial(access: Access) -> Connection:
    """Raises OSError (ssl.SSLError among them) and TimeoutError."""
    async with asyncio.timeout(_PATIENCE):
        if access.proxy is not None and access.tls is not None:
            connection = await _through_proxy(access, access.proxy, access.tls)
        else:
            connection = await _straight(access)
    return connection


async def _straight(access: Access) -> Connection:
    host, port = _place(urlsplit(access.server))
    transport, connection = await asyncio.get_running_loop().create_connection(
        Connection,
        host,
        port,
        ssl=access.tls,
        server_hostname=(access.server_name or host) if access.tls is not None else None,
    )
    _keep_alive(transport)
    return connection


async def _through_proxy(access: Access, proxy: str, tls: ssl.SSLContext) -> Connection:
    loop = asyncio.get_running_loop()
    host, port = _place(urlsplit(access.server))
    transport, connection = await loop.create_connection(Connection, *_place(urlsplit(proxy)))
    try:
        _keep_alive(transport)
        await _ask_for_tunnel(connection, f"{f'[{host}]' if ':' in host else host}:{port}", urlsplit(proxy))
        secured = await loop.start_tls(transport, connection, tls, server_hostname=access.server_name or host)
    except BaseException:
        connection.close()
        raise
    if secured is None:
        raise ConnectionResetError("the proxy closed the connection")
    connection.connection_made(secured)
    return connection


async def _ask_for_tunnel(connection: Connection, place: str, proxy: SplitResult) -> None:
    fields = {"Host": place}
    if proxy.username is not None:
        secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        fields["Proxy-Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    answer = await connection.ask_stream(encoded_request("CONNECT", place, encoded_fields(fields), None), _PATIENCE)
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise ConnectionRefusedError(f"the proxy {proxy.hostname}:{proxy.port} answered {answer.status}")
    connection.become_tunnel()


def _place(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """Lets the kernel find out that the other side is gone, while nothing is said."""
    connected = transport.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
