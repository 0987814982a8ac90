"""Supervisors that kill themselves at a chosen place, and what the service would do afterwards, without its process.

A supervisor is forked from the tests, which have loaded its modules, and then does what a supervisor does. A place is
before or after a call that others can notice: a record, a status, a command to the engine, the hand-over of the lock.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon import connections
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.preparation.new_record import new_record
from pumice.engines.local.preparation.run_plan import check
from pumice.engines.local.runs import Recorder
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.scheduling.machine import Machine, read_machine
from pumice.engines.local.scheduling.plan import Waiting
from pumice.engines.local.scheduling.reservations import live_reservations, reservations_directory
from pumice.engines.local.scheduling.run_queue import active_runs, is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.queue_turn import QueueTurn
from pumice.engines.local.service.queued_runs import recover
from pumice.engines.local.supervisor import leased_process, process
from pumice.engines.local.supervisor.supervisor_process import SupervisorProcess
from pumice.model.job import JobStatus
from pumice.runtime.offline_context import offline_context
from pumice.store.events import PhaseChanged, StatusWritten
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.history.entries import decode_entry
from pumice.store.journal import Entry, Journal
from pumice.store.options import RunOptions
from pumice.store.run_record import DETACHED, RunRecord
from pumice.store.run_request import RunRequest
from pumice.store.settings import Retention, Settings
from tests.local.running import Manifest, processes
from tests.patience import PATIENCE

POINTS = "crash-points"
CrashPoint = tuple[str, int]  # a label, and which of its occurrences

# What is wrapped, and the argument that tells one kind of call from another.
_CALLS: Sequence[tuple[Any, str, Callable[..., str]]] = (
    (OwnerLock, "sign", lambda *_: ""),
    (Journal, "open", lambda *_: ""),
    (Journal, "append", lambda _self, kind, *_, **__: str(kind)),
    (os, "fdatasync", lambda *_: ""),
    (Recorder, "write", lambda _self, *, sync=False: "final" if sync else ""),
    (LocalRun, "suspend", lambda *_: ""),
    (LocalPod, "begin", lambda *_: ""),
    (RunStore, "finish", lambda *_: ""),
    (RunStore, "detach", lambda *_: ""),
    (LocalRun, "detach", lambda *_: ""),
    (leased_process, "keep_secrets", lambda *_: ""),
    (process, "drop_secrets", lambda *_: ""),
    (connections, "bound_socket", lambda *_: ""),
    (Sandbox, "close", lambda *_: ""),
    (LocalEngine, "write_status", lambda _self, _snapshot, status: str(status.state.phase)),
    (LocalEngine, "apply", lambda _self, _key, command: type(command).__name__),
)


@dataclass(slots=True)
class Killer:
    """Counts the places that a process passes, and kills it at one of them."""

    log: int  # each place is a line in this file
    at: CrashPoint | None
    _counts: Counter[str] = field(default_factory=Counter)

    def install(self) -> None:
        for owner, name, kind in _CALLS:
            setattr(
                owner, name, self._wrapped(getattr(owner, name), f"{owner.__name__.rpartition('.')[2]}.{name}", kind)
            )

    def pass_by(self, label: str) -> None:
        self._counts[label] += 1
        os.write(self.log, f"{label}\n".encode())
        if self.at == (label, self._counts[label]):
            os.kill(os.getpid(), signal.SIGKILL)

    def _wrapped(self, call: Callable[..., Any], name: str, kind: Callable[..., str]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            label = f"{name} {kind(*args, **kwargs)}".rstrip()
            self.pass_by(f"before {label}")
            result = call(*args, **kwargs)
            if asyncio.iscoroutine(result):
                return self._awaited(result, label)
            self.pass_by(f"after {label}")
            return result

        return wrapped

    async def _awaited(self, work: Any, label: str) -> Any:
        result = await work
        self.pass_by(f"after {label}")
        return result


def fork_supervisor(run: StoredRun, lock: OwnerLock, at: CrashPoint | None) -> int:
    """Return the pid of a new supervisor, which has the lock."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        output = os.open(run.directory / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard in (1, 2):
            os.dup2(output, standard)
        Killer(os.open(run.directory / POINTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), at).install()
        code = process.main(run.directory, lock.descriptor)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as pytest
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def fork_leased(points: Path, at: CrashPoint | None) -> SupervisorProcess:
    """Return a new process of a foreground run, which is held by a connection."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child:
        theirs.close()
        return SupervisorProcess(Forked(child), ours)
    code = 1
    try:
        ours.close()
        os.setsid()
        Killer(os.open(points, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), at).install()
        code = leased_process.main(theirs.detach())
    finally:
        os._exit(code)


@dataclass(slots=True)
class Forked:
    """A child of this process, with the methods of `subprocess.Popen` that are needed."""

    pid: int
    code: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)  # several threads may wait

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        return self._wait(0) or 0

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def _wait(self, flags: int) -> int | None:
        with self._lock:
            if self.code is None:
                found, status = os.waitpid(self.pid, flags)
                self.code = os.waitstatus_to_exitcode(status) if found else None
            return self.code


def request_of(document: Manifest, directory: Path, state: Path) -> RunRequest:
    settings = Settings(workdir=directory, state=state, retention=Retention(keep_per_name=10**6))
    return RunRequest(admit(document, offline_context()), RunOptions(settings))


def record_of(document: Manifest, directory: Path, state: Path) -> RunRecord:
    """Return the record of a run of this Job, as `submit` makes it."""
    request = request_of(document, directory, state)
    plan = check(replace(request, options=replace(request.options, mode=DETACHED)), read_machine(), os.environ)
    return new_record(plan, 0, wall_clock())


@dataclass(slots=True)
class Lives:
    """Runs of one Job in one store, each in a directory of its own."""

    store: RunStore
    record: RunRecord
    home: Path
    _number: int = 0

    def submit(self) -> StoredRun:
        self._number += 1
        workdir = self.home / f"run{self._number}"
        workdir.mkdir()
        options = {**self.record.options, "settings": {**self.record.options["settings"], "workdir": str(workdir)}}
        uid = f"{self._number:08d}-0000-0000-0000-000000000000"
        return queued_runs.submit(self.store, msgspec.structs.replace(self.record, uid=uid, options=options))

    def workdir(self, run: StoredRun, name: str) -> Path:
        """Return a file in the directory of a run's pods."""
        return Path(run.record.options["settings"]["workdir"], name)

    def start(self, at: CrashPoint | None = None) -> int:
        """Start the one run that waits; return the pid of its supervisor."""
        pids: list[int] = []

        def machine(_waiting: Sequence[Waiting]) -> Machine:
            return Machine((0, 1), 2, 1 << 30, (), 1 << 30)

        turn = QueueTurn(self.store, lambda run, lock: pids.append(fork_supervisor(run, lock, at)), wall_clock, machine)
        turn.take(active_runs(self.store))
        (pid,) = pids
        return pid

    def ended(self, pid: int) -> bool:
        """Wait for a supervisor; return whether it was killed."""
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
        return os.WIFSIGNALED(status)

    def go_on(self, run: StoredRun) -> None:
        """Do what the service does when a supervisor is gone, and wait for the end of the next one."""
        recover(self.store, run)
        if is_waiting(run.status()):
            assert not self.ended(self.start()), (run.directory / "supervisor.log").read_text()


def status_of(entry: Entry) -> JobStatus | None:
    """Return the status of the job that a record of the journal contains."""
    if entry.kind not in (StatusWritten.__name__, PhaseChanged.__name__):
        return None
    found = decode_entry(StatusWritten.__name__, entry.data)
    return found.status if isinstance(found, StatusWritten) else None


def passed(directory: Path) -> list[str]:
    """Return the labels of the places that the supervisors of a run passed, which are written in this directory."""
    return (directory / POINTS).read_text().splitlines()


def nothing_left(store: RunStore, home: Path) -> list[str]:
    """Return processes, links, sockets, scratch files and reservations of runs that have ended."""
    deadline = time.monotonic() + PATIENCE
    # Processes of a sandbox end a moment after their supervisor.
    while (left := processes(str(home))) and time.monotonic() < deadline:
        time.sleep(0.05)
    files = [
        *store.active.iterdir(),
        *(home / "pumice").glob("**/*.sock"),
        *(path for path in store.state.glob("stage/*") if path.name != "lock"),
        *store.state.glob("runs/*/*/*/scratch"),
        # Those of dead processes are removed by the next one that counts.
        *live_reservations(reservations_directory(store.state)),
        *(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(home) in line),
    ]
    return [*left, *map(str, files)]
