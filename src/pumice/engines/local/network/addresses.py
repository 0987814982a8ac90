"""Addresses of pods, from 10.77.0.10 upwards, and the variables that say how a pod reaches others and the outside.

A slot's pod has the same address each time it is created. Gloo and NCCL otherwise guess the interface from the host
name, and a wrong guess hangs for minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from pumice.model.pumice_error import PumiceError

NETWORK: Final = "10.77.0.0/16"
GATEWAY: Final = "10.77.0.1"
_FIRST: Final = 10
# Some programs take addresses that end in 0 or 255 for a network or a broadcast address.
_PER_BLOCK: Final = 254
_BLOCKS: Final = 256
CAPACITY: Final = _PER_BLOCK * _BLOCKS - (_FIRST - 1)
POD_INTERFACE: Final = "eth0"
_INTERFACE_VARIABLES: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
# Variables share the kernel's size limit with the program's arguments.
_LONGEST_LIST: Final = 32_000


class AddressesExhaustedError(PumiceError):
    def __init__(self) -> None:
        super().__init__(f"a job can have at most {CAPACITY} pods on one machine")


class Addresses:
    def __init__(self, names: Iterable[str] = ()) -> None:
        """Assign addresses to the names in order, so that a job's pods have neighbouring addresses."""
        self._numbers: dict[str, int] = {}
        for name in names:
            self.of(name)

    def of(self, name: str) -> str:
        """Return the address of a name; assign one the first time."""
        found = address(self._numbers.get(name, len(self._numbers)))
        self._numbers.setdefault(name, len(self._numbers))
        return found


def address(number: int) -> str:
    """Return the address with this number, counted from 0."""
    if not 0 <= number < CAPACITY:
        raise AddressesExhaustedError
    block, last = divmod(number + _FIRST - 1, _PER_BLOCK)
    return f"10.77.{block}.{last + 1}"


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
