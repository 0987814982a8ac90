"""Whether SIGTERM, or another signal that should end it, would be lost on the first process of a container.

Linux does not deliver a signal to the first process of a pid namespace unless that process has a handler for it: there
the default action is to do nothing. Most shells have none, so that a container whose command is a shell script would
stay until its grace period is over, though it never asked for that time.
"""

from __future__ import annotations

import enum
import os
import re
import signal
from typing import Final

# The number of rt_sigtimedwait, by which a process waits for signals; on x86_64 also those of 32-bit programs.
_WAITING_FOR_SIGNALS: Final = {
    "x86_64": (128, 177, 421),
    "aarch64": (137,),
    "riscv64": (137,),
}


# All others end a process that does nothing about them. SIGKILL does so in any case.
_HARMLESS: Final = frozenset(
    {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGCONT,
        signal.SIGCHLD,
        signal.SIGURG,
        signal.SIGWINCH,
    }
)


class Hearing(enum.Enum):
    GOOD = enum.auto()  # the signal is for the process to deal with
    NONE = enum.auto()  # it would have no effect
    BUSY = enum.auto()  # blocked for a moment; look again


def hearing(pidfd: int, number: int) -> Hearing:
    """What would become of the signal. In doubt the process has its grace."""
    if number in _HARMLESS:
        return Hearing.GOOD
    try:
        # By the descriptor: the number may have become another's, and /proc may be that of an outer namespace.
        pid = _find(_read(f"/proc/self/fdinfo/{pidfd}"), b"Pid").decode()
        # Twice, because a process in a loop may begin to wait between two looks.
        waiting = _waits_for_signals(pid)
        heard = _by_status(_read(f"/proc/{pid}/status"), number)
        return Hearing.GOOD if waiting or _waits_for_signals(pid) else heard
    except (OSError, LookupError):
        # It has ended and needs no help with that, or it may not be looked at.
        return Hearing.GOOD


def _by_status(status: bytes, number: int) -> Hearing:
    """Who ignores the signal has said so on purpose, and who blocks it and sleeps will ask for it later.

    Shells and C libraries also block all signals for an instant, while they start a child. They run then, or wait for
    the child in a sleep that cannot be interrupted.
    """
    caught, ignored, blocked = (
        int(_find(status, name), 16) >> (number - 1) & 1 for name in (b"SigCgt", b"SigIgn", b"SigBlk")
    )
    if caught or ignored or _find(status, b"NSpid").split()[-1] != b"1":
        return Hearing.GOOD
    if blocked:
        return Hearing.GOOD if _find(status, b"State").startswith(b"S") else Hearing.BUSY
    return Hearing.NONE


def _waits_for_signals(pid: str) -> bool:
    """As small init programs do. Meanwhile Linux does not show the signals that they wait for as blocked."""
    numbers = _WAITING_FOR_SIGNALS[os.uname().machine]
    call = _read(f"/proc/{pid}/syscall").split()[0]
    return call.isdigit() and int(call) in numbers


def _find(text: bytes, name: bytes) -> bytes:
    match = re.search(rb"^%s:\s*(.+)$" % name, text, re.MULTILINE)
    if match is None:
        raise LookupError(name)
    return match[1]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
