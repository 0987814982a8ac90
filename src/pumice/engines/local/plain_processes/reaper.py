"""Kills plain processes: with their container, and when the engine dies.

On Linux the shim of each container does that. Elsewhere the processes of a container form a process group; those that
leave it are found, where there is a /proc, by an environment variable, the mark, that they inherit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

from pumice.engines.local.plain_processes import shim
from pumice.engines.local.sandbox.init.exec_command import default_signals
from pumice.engines.local.sandbox.python_start import python_start
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS, ExhaustedError

_ROUNDS = 5


def main() -> None:
    """Reads lines "+GROUP MARK" (the mark in hexadecimal digits) and "-GROUP", and "=" when the job has ended.

    At the end of the input, which is also the end of the engine, kills every group that is left.
    """
    groups: dict[int, str] = {}
    for line in sys.stdin:
        group, _, digits = line[1:].strip().partition(" ")
        if line[0] == "=":
            groups.clear()
        elif line[0] == "+":
            groups[int(group)] = os.fsdecode(bytes.fromhex(digits))
        else:
            groups.pop(int(group), None)
    for number, mark in groups.items():
        kill_all(number, mark)


class Reaper:
    """A process that outlives the engine for a moment. PR_SET_PDEATHSIG would not reach grandchildren."""

    def __init__(self, lock: int) -> None:
        """The lock shows that a process of the job lives, so it must outlive the engine."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                python_start("plain_processes.reaper"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock,),
                cwd="/",
                start_new_session=True,
            )
        except BlockingIOError as error:
            raise ExhaustedError(NO_PROCESS) from error
        if self._process.stdin is None:
            raise AssertionError("stdin=PIPE")
        self._pipe = self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_self(self, mark: str, cpus: Sequence[int] = ()) -> None:
        """Called by a new process before it becomes the command, because the engine may die right after."""

        def register() -> None:
            # Python has reset SIGPIPE already, and the reaper may be dead.
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            self._send(f"+{os.getpid()} {os.fsencode(mark).hex()}\n")

        if shim.AVAILABLE:
            if cpus:
                os.sched_setaffinity(0, cpus)
            shim.fork_below(register)
        else:
            register()
        if os.isatty(0):
            # The terminal of a command that a user runs in a pod.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        default_signals()

    def remove(self, group: int) -> None:
        self._send(f"-{group}\n")

    def close(self) -> None:
        """Every group has ended, and its number may have been reused."""
        self._send("=\n")
        self._pipe.close()
        self._process.wait()

    def _send(self, line: str) -> None:
        # If the reaper was killed, the job goes on without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe.fileno(), line.encode())


def kill_group(group: int) -> None:
    """Kill all processes of a container; macOS answers EPERM where only zombies are left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if shim.AVAILABLE:
            os.kill(group, shim.END)
        else:
            os.killpg(group, signal.SIGKILL)


def kill_all(group: int, mark: str) -> None:
    """Kill the group and all processes with the mark. Further rounds find those forked during the search."""
    if shim.AVAILABLE:
        return
    kill_group(group)
    variable = os.fsencode(mark)
    for _ in range(_ROUNDS):
        found = False
        # Without /proc nothing is found. Zombies have no environment.
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if variable in (directory / "environ").read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(directory.name), signal.SIGKILL)
        if not found:
            return
