"""Memory that belongs to namespaces and not to processes: that of sockets, and System V IPC.

Segments of shared memory outlive the process that made them, and so do message queues and semaphores.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from pumice.engines.local.sandbox import kernel_files
from pumice.engines.local.sandbox.net.sock_diag import SockDiag

_DIRECTORY = "/proc/sysvipc"
# What the kernel takes for a message besides its text, and for a semaphore.
_SIZE_OF_MESSAGE = 64
_SIZE_OF_SEMAPHORE = 64


class IpcObject(NamedTuple):
    size: int
    creator: int = 0  # a pid, if the kernel has it
    segment: int | None = None  # the number of a segment of shared memory


class NamespaceMemory:
    """Create it in the network and IPC namespaces that it is to read."""

    def __init__(self) -> None:
        self.namespaces = tuple(os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "ipc"))
        self._opened = contextlib.ExitStack()
        self._files = {}
        for kind in ("shm", "msg", "sem"):
            with contextlib.suppress(OSError):
                # The kernel was built without, or a container covers the files.
                file = open(f"{_DIRECTORY}/{kind}", "rb", buffering=0)  # noqa: SIM115 - until `close`
                self._files[kind] = self._opened.enter_context(file)
        self._sockets: SockDiag | None = None
        with contextlib.suppress(OSError):
            self._sockets = SockDiag()
            self._opened.callback(self._sockets.close)

    def close(self) -> None:
        self._opened.close()

    def sockets(self) -> dict[int, int]:
        """Return bytes by the inode of a socket, or by NO_DESCRIPTOR."""
        with contextlib.suppress(OSError):
            return {} if self._sockets is None else self._sockets.read()
        return {}

    def ipc(self) -> list[IpcObject]:
        return [
            *(_segment(words) for words in self._lines("shm")),
            *(IpcObject(int(words[3]) + int(words[4]) * _SIZE_OF_MESSAGE) for words in self._lines("msg")),
            *(IpcObject(int(words[3]) * _SIZE_OF_SEMAPHORE) for words in self._lines("sem")),
        ]

    def _lines(self, kind: str) -> list[list[bytes]]:
        with contextlib.suppress(OSError, KeyError):
            return [line.split() for line in kernel_files.read_again(self._files[kind].fileno()).splitlines()[1:]]
        return []


def _segment(words: list[bytes]) -> IpcObject:
    """The last two numbers are what is resident and what is swapped out, which need not be what was asked for."""
    return IpcObject(int(words[-2]) + int(words[-1]), int(words[4]), int(words[1]))
