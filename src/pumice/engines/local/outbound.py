"""The way out of a job's network (`--network outbound`), and the variables by which programs find it."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final, Protocol

from pumice.engines.local.addresses import GATEWAY, NETWORK
from pumice.engines.local.network_env import proxy_env
from pumice.engines.local.proxy import Permits, Proxy, outside

_PORT: Final = 3128
URL: Final = f"http://{GATEWAY}:{_PORT}"
NOTE: Final = (
    "pods reach the outside through a proxy (http_proxy, https_proxy): programs that ignore these variables, UDP and "
    "ping do not get out"
)


class Listening(Protocol):
    """What the way out needs of the sandbox."""

    async def listen(self, address: str, port: int) -> socket.socket: ...


def outbound_env(names: Iterable[str]) -> dict[str, str]:
    """`names` are the names and addresses of the pods: not every library understands a network in no_proxy."""
    env = proxy_env(URL, NETWORK, names)
    # An HTTP address here, too: libraries without SOCKS fail at the sight of the other kind, even if unused.
    return {**env, "all_proxy": URL, "ALL_PROXY": URL}


async def open_outbound(sandbox: Listening, permits: Permits = outside) -> Proxy:
    """Leads out until it is closed, which must be before the sandbox is."""
    proxy = Proxy(await sandbox.listen(GATEWAY, _PORT), permits)
    await proxy.start()
    return proxy
