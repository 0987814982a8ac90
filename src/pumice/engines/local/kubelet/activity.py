"""What the processes of a silent container do: their states, and whom they are connected to."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Callable
from typing import Final

# Run in the container. `cat` lists itself as well.
LOOK: Final = ("sh", "-c", "exec cat /proc/[0-9]*/stat /proc/net/tcp")
_PROCESS: Final = re.compile(r"^\d+ \((.*)\) ([A-Z]) ", re.MULTILINE)
_CONNECTION: Final = re.compile(r"^ *\d+: [0-9A-F]{8}:[0-9A-F]{4} ([0-9A-F]{8}):([0-9A-F]{4}) (01|02) ", re.MULTILINE)
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
    """The kernel prints an address as a number in the byte order of the machine."""
    return socket.inet_ntoa(struct.pack("=I", int(text, 16)))
