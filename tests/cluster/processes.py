"""Server processes of the test cluster: start with a log file, pause, stop, and never leave one behind.

A `Reaper` is a small process that knows every server. When the test process ends, in whatever way, it kills the
servers that are left. It compares start times first, because process ids are reused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.fork_server import Forked
from tests.patience import PATIENCE

_START_TIME = 19  # its index in /proc/PID/stat after the name, which may contain blanks

_REAP = f"""
import os, signal, sys
servers = dict(line.split() for line in sys.stdin)
for process, started in reversed(servers.items()):
    try:
        now = open(f"/proc/{{process}}/stat").read().rpartition(")")[2].split()[{_START_TIME}]
        if now == started:
            os.kill(int(process), signal.SIGKILL)
    except OSError:
        continue
"""


def start_time(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except (FileNotFoundError, ProcessLookupError):
        return "-"  # it has ended: no process has this start


class Reaper:
    def __init__(self) -> None:
        command = [sys.executable, "-IS", "-c", _REAP]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def watch(self, process: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{process} {start_time(process)}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)


@dataclass(slots=True)
class Daemon:
    """`environ` is the whole environment of the program, without proxies or kubeconfigs of the user."""

    name: str
    argv: Sequence[str]
    log: Path
    reaper: Reaper
    # GOGC: the servers take more memory and less processor time.
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": os.defpath, "HOME": "/nonexistent", "GOGC": "400"})
    process: subprocess.Popen[bytes] | Forked | None = None
    paused: bool = False

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self.reaper.watch(self.process.pid)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def wait_ready(self, is_ready: Callable[[], bool], within: float = PATIENCE) -> None:
        deadline = time.monotonic() + within
        while not is_ready():
            if not self.alive:
                raise AssertionError(f"{self.name} ended at once:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name} is not ready after {within:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self, within: float = PATIENCE) -> None:
        if self.process is None:
            return
        if self.paused:
            self.resume()
        self.process.terminate()
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self, lines: int = 12) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def peak_memory(daemon: Daemon) -> float:
    """The most memory that a running server has had, in MiB."""
    assert daemon.process is not None
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
