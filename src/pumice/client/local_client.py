"""The client of this machine: reads the store, and talks to the processes of runs through their control sockets."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import shlex
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from pumice.client.export import export
from pumice.client.values import RunSummary, summary
from pumice.engines.local.daemon.line_protocol import RETIRE, Connection, ConnectionFailedError, connection_to
from pumice.engines.local.outcome import SUSPENDED
from pumice.engines.local.run_errors import NotRunningError, RunError
from pumice.engines.local.runs.lost_runs import STOPPED, close_lost_run, migrate, settle_lost_runs
from pumice.engines.local.runs.owner_lock import OwnerLock, read_owner
from pumice.engines.local.runs.run_names import LAST, parse_pod
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import NoSuchRunError, OwnedRun, RunStore, StoredRun
from pumice.engines.local.scheduling.run_queue import why_it_waits
from pumice.engines.local.scheduling.why import Why, sentence
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.on_demand import connected_service, running_service, service_words
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.engines.local.state.settings import state_directory
from pumice.engines.local.supervisor.control_server import control_socket
from pumice.engines.local.supervisor.submit import submit

_POLL: Final = 0.1
_PATIENCE: Final = 5.0
RECENT: Final = dt.timedelta(hours=24)
FINISHED: Final = "finished"
RUNNING: Final = "running"


class WaitTimeoutError(RunError, TimeoutError):
    """The runs did not reach the goal in time."""


@dataclass(frozen=True, slots=True)
class LocalClient:
    """`now` is the wall clock, to tell recent runs."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    namespace: str = ""
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)  # noqa: TID251 - the clock of the caller

    @property
    def store(self) -> RunStore:
        return RunStore(state_directory(self.environ))

    # --- read -----------------------------------------------------------------------------------------------------

    def find(self, text: str) -> StoredRun:
        """Return the run of a name. Raises NoSuchRunError."""
        return self.store.find(text, self.namespace)

    def find_pod(self, text: str) -> tuple[StoredRun, str]:
        """Return run and pod of `[RUN/]TASK-INDEX`. Raises NoSuchRunError."""
        found = parse_pod(text)
        if found is None:
            raise NoSuchRunError(f"{text}: must be TASK-INDEX or RUN/TASK-INDEX")
        return self.find(found[0]), found[1]

    def runs(self, names: Sequence[str] = (), *, everything: bool = False, active: bool = False) -> list[RunSummary]:
        """Return active runs and those that finished within 24 hours, the newest first; by default of all names."""
        with suppress(OSError):
            migrate(self.store)
        recent = self.now() - RECENT
        if names:
            stored = [run for name in names for run in self._named(name)]
        elif active:
            stored = self.store.active_runs()
        else:
            # Runs that ended long ago are not read; those that wait or run may not have changed for long.
            since = 0.0 if everything else recent.timestamp()
            found = {run.record.uid: run for run in self.store.all_runs(self.namespace, since=since)}
            found |= {} if everything else {run.record.uid: run for run in self.store.active_runs()}
            stored = list(found.values())
        summaries = []
        for run in stored:
            status = run.status()
            ended = status.finished
            if everything or ended is None or (not active and (names or ended >= recent)):
                summaries.append(self.summary(run, status))
        return sorted(summaries, key=lambda each: (each.created, each.uid), reverse=True)

    def _named(self, name: str) -> list[StoredRun]:
        """Return all runs of a Job's name, or the one run that the name means."""
        runs = list(self.store.all_runs(self.namespace, name)) if ":" not in name and name != LAST else []
        return runs or [self.find(name)]

    def summary(self, run: StoredRun, status: RunStatus | None = None) -> RunSummary:
        status = status or run.status()
        note = ""
        if status.finished is None and not run.is_owned:
            if not run.is_of_this_host:
                note = f"on {run.record.host}"
            elif status.started is not None:
                note = "its process was killed"
        return summary(run, status, note)

    # --- change ---------------------------------------------------------------------------------------------------

    def submit(self, request: RunRequest) -> str:
        """Start a run that outlives this process; return its name. Raises RunError."""
        return asyncio.run(submit(request, self.now(), self.environ))

    @asynccontextmanager
    async def connected(self, run: StoredRun) -> AsyncIterator[Connection]:
        """Connect to the process of a run. Raises NotRunningError if it has ended, ConnectionFailedError."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            if not run.is_owned:
                raise NotRunningError(f"{run.ref} is not running: {run.status().phase}")
            try:
                async with connection_to(control_socket(run.record.uid)) as connection:
                    connection.check_protocol()
                    yield connection
                    return
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # The socket is made a moment after the run begins, and again after a logout has removed it.
                if time.monotonic() > deadline:
                    raise ConnectionFailedError(f"{run.ref} does not respond", "stop --force ends it") from error
            await asyncio.sleep(_POLL)

    def call(self, run: StoredRun, request: str, **fields: Any) -> Any:
        """Send a request to the process of a run, and return the result. Raises RunError."""

        async def call() -> Any:
            async with self.connected(run) as connection:
                return await connection.call(request, **fields)

        return asyncio.run(call())

    def stop(self, run: StoredRun, *, force: bool = False) -> None:
        """Stop a run; one whose process was killed is closed. `force` ends a process that does not respond."""
        if not run.is_owned:
            self._close_lost(run)
            return
        try:
            self.call(run, "stop", force=force)
        except ConnectionFailedError:
            owner = read_owner(run.directory)
            if not force or not owner.is_alive:
                raise
            os.kill(owner.pid, signal.SIGKILL)

    def _close_lost(self, run: StoredRun) -> None:
        if run.status().finished is not None:
            return
        lock = OwnerLock.take(run.directory)
        if lock is not None:
            close_lost_run(self.store, OwnedRun(run, lock), STOPPED, self.now())
            lock.release()

    def remove(self, run: StoredRun, *, force: bool = False) -> None:
        """Remove the record of a run. Raises RunError if it has not finished, unless `force` stops it first."""
        if not self.summary(run).is_finished:
            if not force:
                what = "is running" if run.is_owned else "has not finished"
                raise RunError(f"{run.ref} {what}", f"pumice stop {run.ref}, or --force")
            self.stop(run, force=True)
            self.wait([run], timeout=60)
        lock = OwnerLock.take(run.directory)
        if lock is None:
            raise RunError(f"{run.ref} is running", f"pumice stop {run.ref}, or --force")
        try:
            self.store.remove(run)
        finally:
            lock.release()

    def settle(self) -> None:
        """Close runs whose process was killed."""
        settle_lost_runs(self.store, self.now())

    def resume(self, run: StoredRun) -> None:
        """Queue a suspended run again. Raises NotRunningError for one that is not suspended."""
        if run.status().reason != SUSPENDED or run.is_owned:
            raise NotRunningError(f"{run.ref} is not suspended: {run.status().phase}")
        lock = OwnerLock.take(run.directory)
        if lock is None:
            raise NotRunningError(f"{run.ref} is not suspended")
        try:
            queued_runs.resume(self.store, run)
        finally:
            lock.release()
        self.wake()

    def wake(self) -> None:
        """Have the service look at the queue; start it if it does not run. Raises ConnectionFailedError."""

        async def wake() -> None:
            async with connected_service(self.store.state, self.environ) as service:
                await service.call("wake")

        asyncio.run(wake())

    def revive(self, runs: Sequence[StoredRun]) -> None:
        """Have the service start or close runs that no process owns: they wait in the queue, or lost their process.

        Raises ConnectionFailedError.
        """
        if any(not run.is_owned and not self.summary(run).is_over for run in runs):
            self.wake()

    def service_status(self) -> dict[str, Any] | None:
        """Return what the service says about itself; None if it does not run."""
        found: dict[str, Any] | None = self._ask_service("status")
        return found

    def stop_service(self) -> bool:
        """End the service; runs go on. False if it does not run."""
        return self._ask_service(RETIRE) is not None

    def _ask_service(self, request: str) -> Any:
        async def ask() -> Any:
            async with running_service(self.store.state, self.environ) as service:
                return None if service is None else await service.call(request)

        return asyncio.run(ask())

    def service_log(self) -> Path:
        return ServicePaths(self.store.state).log

    def service_command(self) -> str:
        """Return the command line that starts the service in the foreground."""
        return shlex.join(service_words(self.store.state))

    def export(self, run: StoredRun, out: BinaryIO, *, logs: bool = True) -> None:
        """Write an archive of the run. Raises OSError."""
        export(run, out, logs=logs)

    def notices(self) -> list[str]:
        """Return what the service did and nobody has read yet: runs interrupted, old runs removed. Each line once."""
        return ServicePaths(self.store.state).take_notices()

    def why(self, run: StoredRun) -> Why | None:
        """Return why a run waits; None if it does not wait."""
        return why_it_waits(self.store, run, self.now())

    # --- wait -----------------------------------------------------------------------------------------------------

    def wait(
        self, runs: Sequence[StoredRun], goal: str = FINISHED, *, some: bool = False, timeout: float | None = None
    ) -> list[RunSummary]:
        """Wait until all runs, or with `some` one of them, have reached the goal or have ended.

        Raises WaitTimeoutError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self.revive(runs)
        while True:
            found = [self.summary(run) for run in runs]
            done = [_reached(each, goal) for each in found]
            if any(done) if some else all(done):
                return [self.summary(run) for run in runs]
            if deadline is not None and time.monotonic() >= deadline:
                waiting = ", ".join(each.run for each, is_done in zip(found, done, strict=True) if not is_done)
                raise WaitTimeoutError(f"{waiting}: not {goal} within {timeout:g}s")
            time.sleep(_POLL)


def why_text(why: Why) -> str:
    """Return the reason in words."""
    return sentence(why)


def _reached(run: RunSummary, goal: str) -> bool:
    if run.is_finished or run.stopped or goal == FINISHED:
        return run.is_finished or run.stopped
    return run.phase.lower() == goal.lower()
