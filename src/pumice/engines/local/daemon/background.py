"""Starts a process of Pumice that outlives its starter: a session of its own, `/` as directory, few variables, a log.

The new process forks once more (`detach`), so that no parent waits for it, and reports that it is ready by a pipe. Its
output and its errors go to the log.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.sandbox.python_start import loader_environment

_UMASK: Final = 0o077
# What a process needs of its starter: where files and programs are, the language, the way to the network.
_ALLOWED: Final = re.compile(
    r"HOME|USER|LOGNAME|PATH|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|(?:https?|no|all)_proxy|SSL_CERT_\w+"
    r"|DBUS_SESSION_BUS_ADDRESS|NVIDIA_VISIBLE_DEVICES|COVERAGE_PROCESS_START",
    re.IGNORECASE,
)
_LONGEST_LOG: Final = 1 << 20


class RotatedLog(Struct, frozen=True):
    """At 1 MiB it becomes `NAME.1`, and a new one begins."""

    path: Path
    limit: int = _LONGEST_LOG

    def write(self, message: str) -> None:
        """Append a line with the time. A full disk must not stop the process."""
        try:
            if os.fstat(2).st_size >= self.limit:
                self.path.rename(self.path.with_name(f"{self.path.name}.1"))
                redirect_output(self.path)
            sys.stderr.write(f"{wall_clock():%Y-%m-%dT%H:%M:%SZ} {message}\n")
            sys.stderr.flush()
        except OSError:
            return


def open_log(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def redirect_output(path: Path) -> None:
    """Make a log standard output and standard error, so that whatever goes wrong is in it. Raises OSError."""
    log = open_log(path)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)


def last_lines(path: Path, count: int = 10) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except OSError:
        return []


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process in the background gets: no credentials of a shell, nothing of its Python."""
    found = {name: value for name, value in environ.items() if _ALLOWED.fullmatch(name)} | loader_environment(environ)
    if (found.get("LC_ALL") or found.get("LC_CTYPE") or found.get("LANG") or "C") in ("C", "POSIX"):
        # An isolated Python takes ASCII there, and cannot read the paths of an installation with other letters.
        found.pop("LC_ALL", None)
        found["LC_CTYPE"] = "C.UTF-8"
    return found


def start_process(
    command: Sequence[str], environ: Mapping[str, str], log: Path, inherited: int
) -> subprocess.Popen[bytes]:
    """Start a process of Pumice that does not end with this one, and that inherits a descriptor. Raises OSError."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    output = open_log(log)
    try:
        return subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=environ,
            umask=_UMASK,
            start_new_session=True,
            pass_fds=(inherited,),
        )
    finally:
        os.close(output)


def start_in_background(command: Sequence[str], environ: Mapping[str, str], log: Path, seconds: float) -> bool:
    """Start a command that calls `detach` and `report_ready`; its last argument is the pipe for that.

    Return whether it is ready: False if it ended before, or the time is up. Raises OSError.
    """
    reading, writing = os.pipe()
    try:
        try:
            # It ends as soon as it has forked.
            start_process([*command, str(writing)], allowed_environment(environ), log, writing).wait()
        finally:
            os.close(writing)
        readable, _, _ = select.select([reading], [], [], seconds)
        return bool(readable) and os.read(reading, 1) != b""
    finally:
        os.close(reading)


def detach() -> None:
    """Go on in a child, and end this process. Call it before any thread starts."""
    if os.fork():
        os._exit(0)


def report_ready(descriptor: int) -> None:
    """Tell the starter, if it still waits."""
    try:
        os.write(descriptor, b"\n")
    except OSError:
        return
    finally:
        os.close(descriptor)
