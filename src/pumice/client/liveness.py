"""Whether the service and the processes of runs live and respond."""

from __future__ import annotations

import os
import pwd
import selectors
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.clock import elapsed
from pumice.engines.local.daemon.logout import ends_at_logout
from pumice.engines.local.daemon.runtime_directory import socket_address
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.engines.local.run_errors import ConnectionFailed, RunError, Unsupported, WrongState
from pumice.engines.local.runs.owner_lock import read_owner
from pumice.engines.local.runs.run_record import FOREGROUND, QUEUED, RunStatus
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.service.service_paths import ServicePaths

NOT_RESPONDING: Final = "not responding"
PROCESS_KILLED: Final = "its process was killed"
_PATIENCE: Final = 2.0  # seconds
_LITTLE: Final = 1 << 20  # bytes


def service_is_running(state: Path) -> bool:
    """Return whether the process that signed the lock of the service lives.

    Taking the lock for a moment would make a service end that starts at this moment.
    """
    return ServicePaths(state).holder().is_alive


def logout_warning() -> str:
    """Return a warning if the system ends background processes of this user at logout; else an empty string."""
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
        if ends_at_logout(user):
            return "warning: this system ends the run at logout\n  hint: `loginctl enable-linger` keeps it running"
    return ""


def disk_warnings(state: Path) -> Iterator[str]:
    """Yield a warning if there is no room for what runs record."""
    with suppress(OSError):
        found = os.statvfs(state)
        if found.f_bavail * found.f_frsize < _LITTLE:
            yield f"warning: the disk of {state} is full: logs have gaps, and new runs are refused"


def not_responding(run: StoredRun) -> ConnectionFailed:
    """Return the error for a run whose process does not answer."""
    hint = f"pumice stop {run.ref} --force ends it"
    return ConnectionFailed(f"{run.ref} does not respond", hint, python_hint="run.stop(force=True) ends it")


def not_running(run: StoredRun) -> WrongState:
    """Return the error for a request to a run that has no process."""
    status = run.status()
    lost = status.finished is None and status.started is not None
    return WrongState(f"{run.ref} is not running: {PROCESS_KILLED if lost else status.phase}")


def check_host(run: StoredRun) -> None:
    """Raises Unsupported: a run of another machine, on a shared home, is never changed from here."""
    if not run.is_of_this_host:
        raise Unsupported(f"{run.ref} is a run of {run.record.host}", "run the command there")


def lost_status(run: StoredRun, status: RunStatus) -> RunStatus:
    """Return what is true of a run whose process was killed: its pods are gone, and it waits for the service."""
    pods = msgspec.structs.replace(status.pods, running=0, pending=0)
    if run.record.mode == FOREGROUND:
        return msgspec.structs.replace(status, pods=pods)
    return msgspec.structs.replace(status, phase=QUEUED, started=None, pods=pods)


def wake_owner(run: StoredRun) -> None:
    """Ask the process of a run to create its socket again, which a logout may have removed."""
    owner = read_owner(run.directory)
    if owner.is_alive:
        with suppress(OSError):
            os.kill(owner.pid, signal.SIGUSR1)


def unresponsive(runs: Sequence[StoredRun]) -> frozenset[str]:
    """Return the uids of the runs whose process does not say hello in time.

    A process without a socket does not count: it has just started, or is creating its socket again.
    """
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for run in runs:
            peer = stack.enter_context(socket.socket(socket.AF_UNIX))
            peer.setblocking(False)
            try:
                with socket_address(control_socket(run.record.uid)) as address:
                    peer.connect(address)
            except (OSError, RunError):
                wake_owner(run)
                continue
            waiting.register(peer, selectors.EVENT_READ, run.record.uid)
        deadline = elapsed() + _PATIENCE
        while waiting.get_map() and (left := deadline - elapsed()) > 0:
            for key, _ in waiting.select(left):
                waiting.unregister(key.fileobj)
        return frozenset(str(key.data) for key in waiting.get_map().values())
