"""The process of a detached run: runs one job to its end, reachable through its control socket."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.admission.admit import admit
from pumice.engines.local.events import RunEvent, RunPlanned
from pumice.engines.local.outcome import TERMINATED, Stop
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.new_record import options_of
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.control_server import run_with_control
from pumice.engines.local.supervisor.run_error_json import plain_error
from pumice.engines.local.supervisor.start import Started
from pumice.model.problem import PumiceError
from pumice.runtime.offline_context import offline_context

_LOG: Final = "supervisor.log"


def main() -> None:
    """Read the run from standard input, report its name there, and run it."""
    os.umask(0o077)
    client = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    with client.makefile("rb") as stream:
        line = stream.readline()
    if line:
        sys.exit(asyncio.run(_run(msgspec.json.decode(line, type=dict[str, Any]), client)))


def session_of(plain: Mapping[str, Any]) -> LocalSession:
    """Return the session of a request that `plain_request` made."""
    admitted = admit(plain["job"], offline_context())
    source = JobSource.of(str(plain["file"]), plain["marks"])
    return LocalSession(admitted, options_of(plain["options"]), plain["documents"], source)


async def _run(plain: Mapping[str, Any], client: socket.socket) -> int:
    session = session_of(plain)

    def answer(message: Started) -> None:
        # The client may be gone; the run goes on.
        with suppress(OSError):
            client.sendall(msgspec.json.encode(message) + b"\n")
        client.close()

    def listen(event: RunEvent) -> None:
        if isinstance(event, RunPlanned):
            _redirect_errors(Path(event.directory) / _LOG)
            answer(Started(run=event.name))

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: session.stop(Stop(TERMINATED, "Terminated")))
    try:
        outcome = await run_with_control(session, listen)
    except RunError as error:
        answer(Started(error=plain_error(error)))
        return 2
    except PumiceError as error:
        answer(Started(error=plain_error(RunError(error.problem.message, error.problem.hint))))
        return 1
    return outcome.exit_code


def _redirect_errors(path: Path) -> None:
    """Tracebacks go to a file of the run."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(descriptor, 2)
        os.close(descriptor)
