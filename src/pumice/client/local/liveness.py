"""Whether the service and the processes of runs live and respond."""

from __future__ import annotations

import os
import pwd
import selectors
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.clock import elapsed
from pumice.engines.local.daemon.runtime_files import control_socket, socket_address
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.model.problem import Command, Option
from pumice.store.files.owner_lock import read_owner
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import ConnectionFailed, RunError, Unsupported, WrongState
from pumice.store.run_record import FOREGROUND, QUEUED, RunStatus

NOT_RESPONDING: Final = "not responding"
PROCESS_KILLED: Final = "its process was killed"
_PATIENCE: Final = 2.0  # seconds
_LITTLE: Final = 1 << 20  # bytes


class Liveness(StrEnum):
    """Whether a process works on a run of this machine."""

    WAITING = "waiting"  # none yet, or none until it is resumed
    LIVE = "live"
    LOST = "lost"  # its process was killed, and nothing has noticed it yet
    OVER = "over"


def liveness(run: StoredRun, status: RunStatus) -> Liveness:
    if status.finished is not None:
        return Liveness.OVER
    # The owner first: testing the lock keeps others from taking it for a moment.
    if read_owner(run.directory).is_alive or run.is_owned:
        return Liveness.LIVE
    return Liveness.WAITING if status.started is None else Liveness.LOST


def service_is_running(state: Path) -> bool:
    """Return whether the process that signed the lock of the service lives.

    Taking the lock for a moment would make a service end that starts at this moment.
    """
    return ServicePaths(state).holder().is_alive


def logout_warning() -> str:
    """Return a warning if the system ends background processes of this user at logout; else an empty string."""
    from pumice.engines.local.daemon.logout import ends_at_logout  # noqa: PLC0415 - only for runs in the background

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
    stop = Command("stop", run.ref, options=(Option("force", True),))
    return ConnectionFailed(f"{run.ref} does not respond", (stop, " ends it"))


def not_running(run: StoredRun) -> WrongState:
    """Return the error for a request to a run that has no process."""
    status = run.status()
    is_lost = liveness(run, status) is Liveness.LOST
    return WrongState(f"{run.ref} is not running: {PROCESS_KILLED if is_lost else status.outcome}")


def is_lost(run: StoredRun, status: RunStatus) -> bool:
    """Whether the process of a run was killed, and nobody has recorded it yet."""
    is_begun = status.started is not None and status.finished is None
    return is_begun and run.is_of_this_host and not run.is_owned


def check_changeable(run: StoredRun) -> None:
    """Raises Unsupported for a run of another machine, on a shared home, StoreError for one of another format.

    Raises WrongState for one that was opened from an archive.
    """
    run.check_format(run.ref)
    if run.is_opened:
        raise WrongState(f"{run.ref}: {run.elsewhere}, to be read only", (Command("rm", run.ref), " removes it"))
    if not run.is_of_this_host:
        raise Unsupported(f"{run.ref} is a run of {run.record.host}", "run the command there")


def lost_status(run: StoredRun, status: RunStatus) -> RunStatus:
    """Return what is true of a run whose process was killed: its pods are gone, and it waits for the service."""
    pods = msgspec.structs.replace(status.pods, running=0, pending=0)
    status = msgspec.structs.replace(status, pods=pods, hang=None, published=())
    if run.record.mode == FOREGROUND:
        return status
    return msgspec.structs.replace(status, phase=QUEUED, started=None)


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
