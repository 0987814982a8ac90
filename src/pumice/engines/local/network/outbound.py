"""Connects a job's network to the outside (`--network outbound`): by pasta or slirp4netns, else by a proxy."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pumice.engines.local.network.addresses import GATEWAY, NETWORK, proxy_env
from pumice.engines.local.network.proxy import Permits, Proxy, outside
from pumice.engines.local.network.tunnel_programs import (
    PROGRAMS,
    Tunnel,
    TunnelError,
    TunnelProgram,
    nameservers,
    tun_device_problem,
)

_PORT: Final = 3128
URL: Final = f"http://{GATEWAY}:{_PORT}"
NOTE: Final = (
    "pods reach the outside through a proxy (http_proxy, https_proxy): programs that ignore these variables, UDP and "
    "ping have no access"
)
HINT: Final = "\n  hint: install passt or slirp4netns for full access"


class NetworkSandbox(Protocol):
    """A sandbox as far as outbound traffic needs it."""

    @property
    def pid(self) -> int: ...

    async def listen(self, address: str, port: int) -> socket.socket: ...


class OutboundRoute(Struct, frozen=True):
    """`env` and `nameservers` are for pods; `note` names limitations. Close it before the sandbox."""

    close: Callable[[], Awaitable[None]]
    env: Mapping[str, str] = field(default_factory=dict)
    nameservers: Sequence[str] = ()
    note: str = ""
    ended: Callable[[], Awaitable[None]] | None = None  # returns when the route has ended by itself


async def open_outbound(
    sandbox: NetworkSandbox,
    names: Iterable[str],
    programs: Sequence[TunnelProgram] = PROGRAMS,
    permits: Permits = outside,
    refused: Sequence[str] = (),
) -> OutboundRoute:
    """Use the first program that works, else the proxy; the note names each program that failed, and why.

    The programs do not reach the networks of `refused`; the proxy reaches what it permits.
    """
    installed = [(program, path) for program in programs if (path := program.path()) is not None]
    device = tun_device_problem() if installed else None
    failures = [] if device is None else [f"\n  cannot use {installed[0][0].name}: {device.text}"]
    for program, path in [] if device is not None else installed:
        try:
            tunnel = await Tunnel.start(sandbox.pid, program, path, refused)
        except TunnelError as error:
            failures.append(f"\n  cannot use {program.name}: {error}")
        else:
            return OutboundRoute(tunnel.close, nameservers=nameservers(), ended=tunnel.wait)
    proxy = Proxy(await sandbox.listen(GATEWAY, _PORT), permits)
    await proxy.start()
    return OutboundRoute(proxy.close, proxy_env(URL, NETWORK, names), note=NOTE + ("".join(failures) or HINT))
