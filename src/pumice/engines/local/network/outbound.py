"""The way out of a job's network (`--network outbound`): by a program that the machine has for it, else by a proxy."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from pumice.engines.local.network.addresses import GATEWAY, NETWORK
from pumice.engines.local.network.network_env import proxy_env
from pumice.engines.local.network.proxy import Permits, Proxy, outside
from pumice.engines.local.network.tunnel_programs import (
    KINDS,
    Kind,
    Tunnel,
    TunnelError,
    installed,
    nameservers,
    tun_device_problem,
)

_PORT: Final = 3128
URL: Final = f"http://{GATEWAY}:{_PORT}"
NOTE: Final = (
    "pods reach the outside through a proxy (http_proxy, https_proxy): programs that ignore these variables, UDP and "
    "ping do not get out"
)
HINT: Final = "\n  hint: install passt or slirp4netns, and everything gets out"


class NetworkSandbox(Protocol):
    """What the way out needs of the sandbox."""

    @property
    def pid(self) -> int: ...

    async def listen(self, address: str, port: int) -> socket.socket: ...


@dataclass(frozen=True, slots=True)
class OutboundRoute:
    """`env` and `nameservers` are for the pods; `note` is what the user should know, or empty.

    It leads out until it is closed, which must be before the sandbox is.
    """

    close: Callable[[], Awaitable[None]]
    env: Mapping[str, str] = field(default_factory=dict)
    nameservers: Sequence[str] = ()
    note: str = ""
    over: Callable[[], Awaitable[None]] | None = None  # returns when it has come to an end by itself


def outbound_env(names: Iterable[str]) -> dict[str, str]:
    """`names` are the names and addresses of the pods: not every library understands a network in no_proxy."""
    env = proxy_env(URL, NETWORK, names)
    # An HTTP address here, too: libraries without SOCKS fail at the sight of the other kind, even if unused.
    return {**env, "all_proxy": URL, "ALL_PROXY": URL}


async def open_outbound(
    sandbox: NetworkSandbox, names: Iterable[str], kinds: Sequence[Kind] = KINDS, permits: Permits = outside
) -> OutboundRoute:
    """By the first that works. A program that is there and fails is named, with what it said."""
    found = [(kind, program) for kind in kinds if (program := installed(kind)) is not None]
    fault = tun_device_problem() if found else ""
    failures = [f"\n  {found[0][0].program} does not lead out: {fault}"] if fault else []
    for kind, program in found if not fault else []:
        try:
            tunnel = await Tunnel.start(sandbox.pid, kind, program)
        except TunnelError as error:
            failures.append(f"\n  {kind.program} does not lead out: {error}")
        else:
            return OutboundRoute(tunnel.close, nameservers=nameservers(), over=tunnel.over)
    proxy = Proxy(await sandbox.listen(GATEWAY, _PORT), permits)
    await proxy.start()
    return OutboundRoute(proxy.close, outbound_env(names), note=NOTE + ("".join(failures) or HINT))
