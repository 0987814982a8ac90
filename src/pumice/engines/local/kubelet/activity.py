"""What the processes of a silent container do: their states, and whom they are connected to."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Final

# Run in the container. It says which process is its own; a kernel without IPv6 has no tcp6.
_SCRIPT: Final = """
echo look $$
cat /proc/[0-9]*/stat /proc/net/tcp /proc/net/tcp6
grep -H . /proc/[0-9]*/wchan
command -v py-spy >&2 || { echo no py-spy; exit 0; }
for each in /proc/[0-9]*; do
    case $(cat $each/comm) in python*|pt_*) py-spy dump --nonblocking --pid ${each#/proc/} ;; esac
done
"""
LOOK: Final = ("sh", "-c", f"exec 2>/dev/null\n{_SCRIPT}")
_NO_PY_SPY: Final = re.compile(r"^no py-spy$", re.MULTILINE)
_PYTHON: Final = ("python", "pt_")  # as in the script
_OWN: Final = re.compile(r"^look (\d+)$", re.MULTILINE)
_PROCESS: Final = re.compile(r"^(\d+) \((.*)\) ([A-Z]) (\d+) ", re.MULTILINE)
_WAITS: Final = re.compile(r"^/proc/(\d+)/wchan:([a-z_]\w*)$", re.MULTILINE)
# py-spy lists the innermost function first. The command line of a process may have several lines.
_DUMP: Final = re.compile(r"^Process (\d+): ", re.MULTILINE)
_THREAD: Final = re.compile(r"^Thread (.*)\n((?: {4}.*\n?)+)", re.MULTILINE)
_CONNECTION: Final = re.compile(
    r"^ *\d+: (?:[0-9A-F]{8}){1,4}:[0-9A-F]{4} ((?:[0-9A-F]{8}){1,4}):([0-9A-F]{4}) (01|02) ", re.MULTILINE
)
_STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "Z": "ended"}
_VERBS: Final = {"01": "connected to", "02": "waits for a connection to"}
_MOST: Final = 3


def activity(output: str, name_of: Callable[[str], str]) -> str:
    """Describe the output of LOOK: `python3 sleeping; waits for a connection to master-0:23456`."""
    own = "".join(_OWN.findall(output)[:1])
    waits, stacks = dict(_WAITS.findall(output)), _stacks(output)
    processes = dict.fromkeys(
        f"{name} {_STATES.get(state, state)}{_where(stacks.get(process, ''), waits.get(process, ''))}"
        for process, name, state, parent in _PROCESS.findall(output)
        if own not in (process, parent)
    )
    connections = dict.fromkeys(
        f"{_VERBS[state]} {name_of(_address(address))}:{int(port, 16)}"
        for address, port, state in sorted(_CONNECTION.findall(output), key=lambda one: one[2], reverse=True)
    )
    parts = [", ".join(list(each)[:_MOST]) for each in (processes, connections) if each]
    return "; ".join(parts) or "unknown"


def lacks_py_spy(output: str) -> bool:
    """Whether the container has a Python program and no py-spy that could show where it is."""
    programs = (name for _, name, _, _ in _PROCESS.findall(output))
    return _NO_PY_SPY.search(output) is not None and any(name.startswith(_PYTHON) for name in programs)


def _stacks(output: str) -> dict[str, str]:
    """Return the stack of the main thread of each process that py-spy listed. A program without threads names none."""
    _, *parts = _DUMP.split(output)
    found = {}
    for process, dump in zip(parts[::2], parts[1::2], strict=True):
        threads = _THREAD.findall(dump)
        main = [stack for head, stack in threads if '"MainThread"' in head]
        found[process] = next(iter((*main, *(stack for _, stack in threads))), "")
    return found


def _where(stack: str, channel: str) -> str:
    """The function of a Python process and the line of its script, else what it waits for in the kernel."""
    frames = [line.strip() for line in stack.splitlines()]
    if not frames:
        return f" in {channel}" if channel else ""
    return f" in {frames[0]}" + (f", called by {frames[-1]}" if len(frames) > 1 else "")


def _address(text: str) -> str:
    """The kernel prints an address as numbers of 32 bits in the byte order of the machine: one, or four for IPv6."""
    data = b"".join(struct.pack("=I", int(text[index : index + 8], 16)) for index in range(0, len(text), 8))
    address = ip_address(data)
    if not isinstance(address, IPv6Address):
        return str(address)
    # A socket of IPv6 may have a peer of IPv4.
    return str(address.ipv4_mapped or f"[{address}]")
