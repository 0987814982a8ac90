"""Processes without namespaces, in groups that end together, and with the engine however that ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

# Reads "+GROUP" and "-GROUP" lines, and "=" when all is well.
# When the engine is gone, the pipe ends, and every group that is left is killed.
_REAPER = """
import os, signal, sys
groups = set()
for line in sys.stdin:
    if line[0] == "=":
        groups.clear()
    else:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError as error:
        print(group, error, file=sys.stderr)
"""


class Reaper:
    """A process that outlives the engine by a moment. A signal at the parent's death would not reach grandchildren."""

    def __init__(self, lock: int) -> None:
        """The lock says that something of the job lives. It must outlive the engine, too."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _REAPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            cwd="/",
            start_new_session=True,
        )
        if self._process.stdin is None:
            raise AssertionError("a pipe was asked for")
        self._pipe = self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_self(self) -> None:
        """Called by a new process, before it becomes the command: a moment later the engine may be dead."""
        self._tell(f"+{os.getpid()}\n")

    def remove(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Every group has ended, and its number may be somebody else's by now."""
        self._tell("=\n")
        self._pipe.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        os.write(self._pipe.fileno(), line.encode())


def kill_group(group: int, number: int = signal.SIGKILL) -> None:
    """Where only zombies are left, macOS answers that it is not permitted."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
