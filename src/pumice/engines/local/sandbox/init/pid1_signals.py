"""Tells whether a signal would be lost on the first process of a container.

Linux delivers a signal to pid 1 of a pid namespace only if that process has a handler: the default action there is to
do nothing. Most shells have no handler for SIGTERM, so a container whose command is a shell script would run until the
end of its grace period.
"""

from __future__ import annotations

import enum
import os
import re
import signal
from typing import Final

from pumice.engines.local.sandbox import kernel_files

# The numbers of rt_sigtimedwait, with which a process waits for signals; on x86_64 also those of 32-bit programs.
_SIGTIMEDWAIT: Final = {"x86_64": (128, 177, 421), "aarch64": (137,), "riscv64": (137,)}
# Signals whose default action does not end a process, and SIGKILL, which always does.
_NOT_FATAL: Final = frozenset(
    signal.Signals[f"SIG{name}"] for name in ("KILL", "STOP", "TSTP", "TTIN", "TTOU", "CONT", "CHLD", "URG", "WINCH")
)


class Delivery(enum.Enum):
    NORMAL = enum.auto()  # the process decides what the signal does
    LOST = enum.auto()  # the kernel would discard it
    BLOCKED = enum.auto()  # for a moment; ask again


def delivery(pidfd: int, number: int) -> Delivery:
    """What the kernel would do with the signal; NORMAL in case of doubt."""
    if number in _NOT_FATAL:
        return Delivery.NORMAL
    try:
        # By the descriptor: the pid may have been reused, and /proc may be that of an outer namespace.
        pid = kernel_files.pid_in_proc(pidfd)
        # Checked twice, because a process in a loop may begin to wait in between.
        waits = _waits_for_signals(pid)
        by_status = _delivery_by_status(kernel_files.read(f"/proc/{pid}/status"), number)
        return Delivery.NORMAL if waits or _waits_for_signals(pid) else by_status
    except (OSError, LookupError):
        # The process has ended, or it may not be inspected.
        return Delivery.NORMAL


def _delivery_by_status(status: str, number: int) -> Delivery:
    """A process that ignores the signal does so on purpose; one that blocks it and sleeps will read it later.

    Shells and C libraries also block all signals for a moment while they start a child. They are running then, or
    wait for the child in an uninterruptible sleep.
    """
    caught, ignored, blocked = (
        int(_field(status, name), 16) >> (number - 1) & 1 for name in ("SigCgt", "SigIgn", "SigBlk")
    )
    if caught or ignored or _field(status, "NSpid").split()[-1] != "1":
        return Delivery.NORMAL
    if blocked:
        return Delivery.NORMAL if _field(status, "State").startswith("S") else Delivery.BLOCKED
    return Delivery.LOST


def _waits_for_signals(pid: int) -> bool:
    """As small init programs do. While they wait, Linux does not report these signals as blocked."""
    call = kernel_files.read(f"/proc/{pid}/syscall").split()[0]
    return call.isdigit() and int(call) in _SIGTIMEDWAIT[os.uname().machine]


def _field(text: str, name: str) -> str:
    match = re.search(rf"^{name}:\s*(.+)$", text, re.MULTILINE)
    if match is None:
        raise LookupError(name)
    return match[1]
