"""Variables that let libraries find the pod's network: which interface to use, and which proxy leads out.

Gloo and NCCL otherwise guess the interface from the host name, and a wrong guess shows as a hang of minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

POD_INTERFACE: Final = "eth0"

_INTERFACE_VARIABLES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
# A list beyond this size would crowd out the program's own arguments, which share the kernel's limit.
_LONGEST_LIST: Final = 32_000


def interface_env(interface: str = POD_INTERFACE) -> dict[str, str]:
    return dict.fromkeys(_INTERFACE_VARIABLES, interface)


def loopback_interface(platform: str = sys.platform) -> str:
    return "lo" if platform == "linux" else "lo0"


def proxy_env(proxy: str, pods: str, names: Iterable[str]) -> dict[str, str]:
    """Variables that send outbound traffic through a proxy, but none that stays within the job.

    `pods` is the network of the pods (`10.77.0.0/16`) and `names` are the names by which they reach each other.
    """
    inside = ["localhost", "127.0.0.1", "::1", pods, ".svc", ".cluster.local"]
    length = len(",".join(inside))
    for name in names:
        length += len(name) + 1
        if length > _LONGEST_LIST:
            break
        inside.append(name)
    away = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
    return {**away, **dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(inside))}
