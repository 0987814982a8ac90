"""Reads the runs of this machine. Commands that only list runs load no more than this."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import msgspec

from pumice.client.backend import RECENT, Findings, Listing, NodeListing, OpenedRun, RunRef, Selection, Usage, silent
from pumice.client.local.liveness import (
    NOT_RESPONDING,
    PROCESS_KILLED,
    Liveness,
    disk_warnings,
    liveness,
    logout_warning,
    lost_status,
    service_is_running,
    unresponsive,
)
from pumice.client.pod_access import LocalPort, PodPort
from pumice.client.values import Status, status_of
from pumice.engines.local.scheduling.reservations import live_reservations, reservations_directory, turn
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.model.job import Manifest
from pumice.model.problem import Position
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import MAX_RETRY
from pumice.store.files.owner_lock import read_owner
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.files.state_directory import state_directory
from pumice.store.run_errors import InvalidOption, NoSuchRun, WrongState
from pumice.store.run_names import LAST
from pumice.store.run_record import DETACHED, NEED_RESUME, RunStatus

if TYPE_CHECKING:
    from pumice.admission.admit import Admitted
    from pumice.client.local.local_observer import LocalObserver
    from pumice.store.code.restoring import Bundle
    from pumice.store.history.run_history import RunHistory

T = TypeVar("T")
_OF_LIVE_PODS: Final = ("running", "pending", "terminating", "unknown", "taskStatusCount")


@dataclass(frozen=True, slots=True)
class RunReader:
    """`now` is the wall clock, by which recent runs are found."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    namespace: str = ""
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)  # noqa: TID251 - the clock of the caller

    @property
    def store(self) -> RunStore:
        return RunStore(state_directory(self.environ))

    # --- read -----------------------------------------------------------------------------------------------------

    def find_stored(self, text: str) -> StoredRun:
        """Return the run of a name. Raises NoSuchRun."""
        return self.store.find(text, self.namespace)

    def stored(self, run: RunRef) -> StoredRun:
        """Return a run as it is now. Raises NoSuchRun if it was removed."""
        found = self.store.load(self.store.directory(run.namespace, run.name, run.number, opened=run.opened))
        if found is None or found.record.uid != run.uid:
            raise NoSuchRun(f"{run}: no such run", "it was removed")
        return found

    def listing(self, selection: Selection) -> Listing:
        if selection.labels:
            raise InvalidOption("labels select Jobs of a cluster", "name one: --on CONTEXT", Position("-l"))
        recent = self.now() - RECENT
        if selection.names:
            stored = [run for name in selection.names for run in self._named(name)]
        elif selection.active:
            stored = self._active_runs()
        else:
            # Runs that ended long ago are not read; those that wait or run may not have changed for long.
            since = 0.0 if selection.everything else recent.timestamp()
            found = {run.record.uid: run for run in self.store.all_runs(self.namespace, since=since)}
            found |= {} if selection.everything else {run.record.uid: run for run in self._active_runs()}
            stored = [*found.values(), *(self.store.opened_runs(self.namespace) if selection.everything else ())]
        if selection.mine:
            stored = [run for run in stored if run.is_of_this_host and run.has_our_format]
        summaries, asked = [], set()
        for run in stored:
            status = run.status()
            ended = status.finished
            named = not selection.active and (selection.names or (ended is not None and ended >= recent))
            if selection.everything or ended is None or named:
                summaries.append(self.summary(run, status))
                if ended is None and status.started is not None and read_owner(run.directory).is_alive:
                    asked.add(run.record.uid)
        silent = unresponsive([run for run in stored if run.record.uid in asked]) if asked else ()
        runs = [
            msgspec.structs.replace(each, message=NOT_RESPONDING) if each.uid in silent else each for each in summaries
        ]
        runs.sort(key=lambda each: (each.created, each.uid), reverse=True)
        return Listing(runs, self._reserved() if selection.amounts else {}, self._service_warnings(runs))

    def _named(self, name: str) -> list[StoredRun]:
        """Return all runs of a Job's name, or the one run that the name means."""
        runs = list(self.store.all_runs(self.namespace, name)) if ":" not in name and name != LAST else []
        return runs or [self.find_stored(name)]

    def summary(self, run: StoredRun, status: RunStatus | None = None) -> Status:
        status = status or run.status()
        message = "" if run.has_our_format else run.format_text
        if not message and (state := liveness(run, status)) in (Liveness.WAITING, Liveness.LOST):
            if run.is_opened:
                message = "it had not ended when it was exported"
            elif not run.is_of_this_host:
                message = f"on {run.record.host}"
            elif state is Liveness.LOST:
                message, status = PROCESS_KILLED, lost_status(run, status)
        return summary(run, status, message)

    async def validate(self, job: Admitted, documents: Sequence[Manifest], namespace: str) -> Findings:
        del job, documents, namespace
        return ()  # what is valid can be submitted here; `check` says if it fits

    async def usage(self, run: RunRef) -> Usage:
        from pumice.client.local.connections import usage  # noqa: PLC0415 - few commands need it

        return await usage(self.stored(run))

    def observe(self) -> LocalObserver:
        from pumice.client.local.local_observer import LocalObserver  # noqa: PLC0415 - only the page stays open

        return LocalObserver(self)

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> LocalPort:
        del tell
        from pumice.client.local.pods.forwarding import forward  # noqa: PLC0415 - lists forward no ports

        return await forward(self.stored(run), port)

    async def history(self, run: RunRef) -> RunHistory:
        return self.stored(run).history()

    async def code(self, run: RunRef) -> Bundle | None:
        from pumice.store.code.restoring import restore_run  # noqa: PLC0415 - few commands need it

        return await beside_loop(restore_run, self.stored(run).directory)

    async def job(self, run: RunRef) -> Manifest:
        stored = self.stored(run)
        return job_with_status(stored.history(), self.summary(stored))

    async def nodes(self) -> NodeListing:
        from pumice.client.local.capacity import this_machine  # noqa: PLC0415 - few commands need it

        return NodeListing([await beside_loop(this_machine, self)])

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        from pumice.client.local.export import export  # noqa: PLC0415 - lists need no archives

        await beside_loop(lambda: export(self.stored(run), out, logs=logs))

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        from pumice.client.local.open_archive import open_archive  # noqa: PLC0415 - likewise

        return await beside_loop(open_archive, self.store, archive, name)

    def _reserved(self) -> Mapping[str, Mapping[str, Quantity]]:
        """Return what running runs hold of this machine, by uid: also pods that were added since they began."""
        directory = reservations_directory(self.store.state)
        # A store that may only be read has no turn to take.
        with suppress(OSError), turn(directory):
            return {uid: each.amounts for uid, each in live_reservations(directory).items()}
        return {}

    def _service_warnings(self, runs: Sequence[Status]) -> list[str]:
        """Say how many of the runs wait only because the service is not running."""
        waiting = [each for each in runs if each.started is None and each.mode == DETACHED and not each.is_over]
        queued = sum(each.reason not in NEED_RESUME for each in waiting)
        if not queued or service_is_running(self.store.state):
            return []
        what = "1 run waits" if queued == 1 else f"{queued} runs wait"
        return [f"service not running, {what}; the next command that changes a run starts it"]

    def notices(self) -> list[str]:
        """Return the messages of the service that no command has printed yet: interrupted runs, removed runs."""
        return ServicePaths(self.store.state).take_notices()

    def service_log(self) -> Path:
        return ServicePaths(self.store.state).log

    def warnings(self, *, submitted: bool = False) -> list[str]:
        """Return what keeps runs from being recorded, and with `submitted` from outliving the session of the user."""
        found = [logout_warning()] if submitted else disk_warnings(self.store.state)
        return [each for each in found if each]

    def _active_runs(self) -> list[StoredRun]:
        return [run for run in self.store.active_runs() if self.namespace in ("", run.record.namespace)]


def check_followable(run: StoredRun) -> None:
    """Raises WrongState for a run of an archive that has not ended: nothing more will happen to it."""
    if run.is_opened:
        raise WrongState(f"{run.ref} had not ended when it was exported", "nothing follows")


def ref_of(run: StoredRun) -> RunRef:
    record = run.record
    return RunRef(record.name, record.number, record.namespace, record.uid, run.is_opened)


async def beside_loop(work: Callable[..., T], *args: Any) -> T:
    """Call a function that takes long: in a thread where an event loop runs, which must not wait for it; else here."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001 - documented, and does not raise
        return work(*args)
    result: T = await asyncio.to_thread(work, *args)
    return result


def summary(run: StoredRun, status: RunStatus, message: str = "") -> Status:
    """Return a run at one moment. `message` replaces what its status says."""
    record = run.record
    pods, attempts = status.pods, status.max_attempts
    if status.started is None and not pods.total:
        # It has not started: take the numbers of its Job.
        tasks = record.job.get("spec", {}).get("tasks") or []
        pods = msgspec.structs.replace(pods, total=sum(task.get("replicas", 1) for task in tasks))
        attempts = record.job.get("spec", {}).get("maxRetry") or MAX_RETRY
    # A process that was killed leaves both in the status.
    is_live = status.started is not None and status.finished is None
    return status_of(
        record,
        status,
        reason=status.reason,
        message=message or status.text,
        pods=pods,
        max_attempts=attempts,
        directory=str(run.directory),
        workdir=record.workdir,
        gang=record.gang,
        code_change=status.code_change,
        hang=status.hang if is_live else None,
        published=status.published if is_live else (),
        readable=run.has_our_format,
    )


def job_with_status(history: RunHistory, found: Status) -> dict[str, Any]:
    """Return the Job as the API of a cluster would."""
    job: dict[str, Any] = dict(history.record.job) if history.plan is None else msgspec.to_builtins(history.job)
    status = job.get("status") or {}
    state = status.get("state") or {}
    if found.is_over and state.get("phase") != found.phase:
        # Its process was killed, or stopped, before the job could note it. No pod is left.
        ended = {"phase": found.phase, "reason": found.reason, "message": found.message}
        rest = {name: value for name, value in status.items() if name not in _OF_LIVE_PODS}
        job = {**job, "status": {**rest, "state": {**state, **ended}}}
    return job
