"""Processes without namespaces, in groups that end together, and with the engine however that ends.

Some leave their group, as what sshd starts does. On Linux those are found by a variable that all of a container have:
whoever kills the group kills them, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from pumice.engines.local.sandbox.python_start import python_start
from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS, ExhaustedError

_ROUNDS = 5


def main() -> None:
    """Reads "+GROUP MARK" and "-GROUP" lines, marks in hexadecimal digits, and "=" when all is well.

    When the engine is gone, the input ends, and every group that is left is killed.
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
    """A process that outlives the engine by a moment. A signal at the parent's death would not reach grandchildren."""

    def __init__(self, lock: int) -> None:
        """The lock says that something of the job lives. It must outlive the engine, too."""
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
            raise AssertionError("a pipe was asked for")
        self._pipe = self._process.stdin

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_self(self, mark: str) -> None:
        """Called by a new process, before it becomes the command: a moment later the engine may be dead."""
        # By now a pipe that nobody reads would be its death, as for every program that Python starts.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._tell(f"+{os.getpid()} {os.fsencode(mark).hex()}\n")
        # What the caller of Pumice ignores, as a shell does for programs in the background, would stay ignored.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)

    def remove(self, group: int) -> None:
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Every group has ended, and its number may be somebody else's by now."""
        self._tell("=\n")
        self._pipe.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        # If somebody has killed it, the job goes on; all that is missing is the last resort.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe.fileno(), line.encode())


def kill_group(group: int, number: int = signal.SIGKILL) -> None:
    """Where only zombies are left, macOS answers that it is not permitted."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def kill_all(group: int, mark: str) -> None:
    """The group, and all that carry the variable. One that forks while it is looked for is found in the next round."""
    kill_group(group)
    for _ in range(_ROUNDS):
        found = _marked(os.fsencode(mark))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _marked(mark: bytes) -> list[int]:
    """Who has this variable, as `NAME=value`; nobody where there is no /proc. What is dead already has none."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
    return found
