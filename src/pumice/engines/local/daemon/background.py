"""Starts a process of Pumice that outlives its starter: a session of its own, `/` as directory, few variables.

The new process forks once more (`detach`), so that no parent waits for it, and reports that it is ready by a pipe.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_UMASK: Final = 0o077
# What a process needs of its starter: where files and programs are, the language, the way to the network.
_ALLOWED: Final = re.compile(
    r"HOME|USER|LOGNAME|PATH|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|(?:https?|no|all)_proxy|SSL_CERT_\w+"
    r"|DBUS_SESSION_BUS_ADDRESS|NVIDIA_VISIBLE_DEVICES|COVERAGE_PROCESS_START",
    re.IGNORECASE,
)


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process in the background gets: no credentials of a shell, nothing of its Python."""
    found = {name: value for name, value in environ.items() if _ALLOWED.fullmatch(name)}
    if (found.get("LC_ALL") or found.get("LC_CTYPE") or found.get("LANG") or "C") in ("C", "POSIX"):
        # An isolated Python takes ASCII there, and cannot read the paths of an installation with other letters.
        found.pop("LC_ALL", None)
        found["LC_CTYPE"] = "C.UTF-8"
    return found


def start_in_background(command: Sequence[str], environ: Mapping[str, str], log: Path, ready: int) -> None:
    """Start the command, which calls `detach`. `ready` is the writing end of a pipe that it inherits.

    Raises OSError.
    """
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        started = subprocess.Popen(  # noqa: S603 - our own program
            [*command, str(ready)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=allowed_environment(environ),
            umask=_UMASK,
            start_new_session=True,
            pass_fds=(ready,),
        )
    finally:
        os.close(output)
    # It ends as soon as it has forked.
    started.wait()


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


def wait_until_ready(descriptor: int, seconds: float) -> bool:
    """Return whether the process reported that it is ready; False if it ended before, or the time is up."""
    readable, _, _ = select.select([descriptor], [], [], seconds)
    return bool(readable) and os.read(descriptor, 1) != b""
