"""Environment variables for a pod's network: the interface to use, and the proxy for outbound traffic.

Gloo and NCCL otherwise guess the interface from the host name, and a wrong guess hangs for minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

POD_INTERFACE: Final = "eth0"

_INTERFACE_VARIABLES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
# Variables share the kernel's size limit with the program's arguments.
_LONGEST_LIST: Final = 32_000


def interface_env(interface: str = POD_INTERFACE) -> dict[str, str]:
    return dict.fromkeys(_INTERFACE_VARIABLES, interface)


def loopback_interface(platform: str = sys.platform) -> str:
    return "lo" if platform == "linux" else "lo0"


def proxy_env(proxy: str, pods: str, names: Iterable[str]) -> dict[str, str]:
    """Send outbound traffic through the proxy, but not traffic within the job.

    `pods` is the network of the pods (`10.77.0.0/16`), `names` are names and addresses of pods: not every library
    supports a network in no_proxy.
    """
    inside = ["localhost", "127.0.0.1", "::1", pods, ".svc", ".cluster.local"]
    length = len(",".join(inside))
    for name in names:
        length += len(name) + 1
        if length > _LONGEST_LIST:
            break
        inside.append(name)
    # all_proxy has an HTTP URL, too: libraries without SOCKS support fail on a SOCKS URL, even an unused one.
    outbound = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return dict.fromkeys(outbound, proxy) | dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(inside))
