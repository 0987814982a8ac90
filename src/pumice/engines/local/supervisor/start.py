"""Starts the process of a detached run, and hands the run over to it.

The process is a session of its own, so that it outlives the terminal. It gets the run as its first line of input, not
as arguments, which every user of the machine could read.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any, Final

import msgspec

from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.new_record import plain_options
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.supervisor.run_error_json import error_of

_CODE: Final = "import sys; sys.path[:] = {path!r}; from pumice.engines.local.supervisor.process import main; main()"
_LONGEST: Final = 1 << 20


class SupervisorError(RunError):
    """The process of the run ended before the run began."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of the process: the name of the run, or why it did not start."""

    run: str = ""
    error: dict[str, Any] | None = None


def start_detached(request: RunRequest) -> str:
    """Start a run that outlives this process; return its name, `NAME:N`. Raises RunError if it cannot start."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", _CODE.format(path=sys.path)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        ours.sendall(msgspec.json.encode(plain_request(request)) + b"\n")
        answer = _first_line(ours)
    if not answer:
        raise SupervisorError(f"the process of the run ended with code {process.wait()} before the run began")
    # The process goes on without us; without this, Python warns that it was not waited for.
    process.returncode = 0
    found = msgspec.json.decode(answer, type=Started)
    if found.error is not None:
        raise error_of(found.error)
    return found.run


def plain_request(request: RunRequest) -> dict[str, Any]:
    """Return the request as plain data, with secrets: for a socket, not for a file."""
    return {
        "job": msgspec.to_builtins(request.job.written),
        "options": plain_options(request.options),
        "documents": list(request.documents),
        "file": request.source.file,
        "marks": request.source.plain(),
    }


def _first_line(connection: socket.socket) -> bytes:
    received = b""
    while b"\n" not in received and len(received) < _LONGEST:
        part = connection.recv(65536)
        if not part:
            return b""
        received += part
    return received.partition(b"\n")[0]
