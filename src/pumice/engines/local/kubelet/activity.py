"""What the processes of a silent container do: their states, and whom they are connected to."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

# Run in the container. `cat` lists itself as well; a kernel without IPv6 has no tcp6.
LOOK: Final = ("sh", "-c", "exec cat /proc/[0-9]*/stat /proc/net/tcp /proc/net/tcp6 2>/dev/null")
_PROCESS: Final = re.compile(r"^\d+ \((.*)\) ([A-Z]) ", re.MULTILINE)
_CONNECTION: Final = re.compile(
    r"^ *\d+: (?:[0-9A-F]{8}){1,4}:[0-9A-F]{4} ((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4}) (01|02) ", re.MULTILINE
)
_STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "Z": "ended"}
_VERBS: Final = {"01": "connected to", "02": "waits for a connection to"}
_MOST: Final = 3


def activity(output: str, name_of: Callable[[str], str]) -> str:
    """Describe the output of LOOK: `python3 sleeping; waits for a connection to master-0:23456`."""
    found = [(name, state) for name, state in _PROCESS.findall(output) if (name, state) != ("cat", "R")]
    processes = dict.fromkeys(f"{name} {_STATES.get(state, state)}" for name, state in found)
    connections = dict.fromkeys(
        f"{_VERBS[state]} {name_of(_address(address))}:{int(port, 16)}"
        for address, port, state in sorted(_CONNECTION.findall(output), key=lambda one: one[2], reverse=True)
    )
    parts = [", ".join(list(each)[:_MOST]) for each in (processes, connections) if each]
    return "; ".join(parts) or "unknown"


def _address(text: str) -> str:
    """The kernel prints an address as numbers of 32 bits in the byte order of the machine: one, or four for IPv6."""
    data = b"".join(struct.pack("=I", int(text[index : index + 8], 16)) for index in range(0, len(text), 8))
    address = ip_address(data)
    if not isinstance(address, IPv6Address):
        return str(address)
    # A socket of IPv6 may have a peer of IPv4.
    return str(address.ipv4_mapped or f"[{address}]")
