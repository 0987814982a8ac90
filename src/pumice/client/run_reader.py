"""Reads the runs of this machine. Commands that only list runs load no more than this."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pumice.client.liveness import NOT_RESPONDING, PROCESS_KILLED, lost_status, service_is_running, unresponsive
from pumice.client.values import Status, summary
from pumice.engines.local.run_errors import NoSuchRun
from pumice.engines.local.runs.owner_lock import read_owner
from pumice.engines.local.runs.run_names import LAST, parse_pod
from pumice.engines.local.runs.run_record import DETACHED, NEED_RESUME, RunStatus
from pumice.engines.local.runs.run_store import RunStore, StoredRun
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.engines.local.state.state_directory import state_directory

RECENT: Final = dt.timedelta(hours=24)


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

    def find(self, text: str) -> StoredRun:
        """Return the run of a name. Raises NoSuchRun."""
        return self.store.find(text, self.namespace)

    def find_pod(self, text: str) -> tuple[StoredRun, str]:
        """Return run and pod of `[RUN/]TASK-INDEX`. Raises NoSuchRun."""
        found = parse_pod(text)
        if found is None:
            raise NoSuchRun(f"{text}: must be TASK-INDEX or RUN/TASK-INDEX")
        return self.find(found[0]), found[1]

    def runs(self, names: Sequence[str] = (), *, everything: bool = False, active: bool = False) -> list[Status]:
        """Return active runs and those that finished within 24 hours, the newest first; by default of all names."""
        if self.store.has_old_runs():
            from pumice.engines.local.runs.lost_runs import migrate  # noqa: PLC0415 - loads much, and is seldom needed

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
        summaries, asked = [], set()
        for run in stored:
            status = run.status()
            ended = status.finished
            if everything or ended is None or (not active and (names or ended >= recent)):
                summaries.append(self.summary(run, status))
                if ended is None and status.started is not None and read_owner(run.directory).is_alive:
                    asked.add(run.record.uid)
        silent = unresponsive([run for run in stored if run.record.uid in asked]) if asked else ()
        found_now = [
            msgspec.structs.replace(each, note=NOT_RESPONDING) if each.uid in silent else each for each in summaries
        ]
        return sorted(found_now, key=lambda each: (each.created, each.uid), reverse=True)

    def _named(self, name: str) -> list[StoredRun]:
        """Return all runs of a Job's name, or the one run that the name means."""
        runs = list(self.store.all_runs(self.namespace, name)) if ":" not in name and name != LAST else []
        return runs or [self.find(name)]

    def summary(self, run: StoredRun, status: RunStatus | None = None) -> Status:
        status = status or run.status()
        note = run.newer_text if run.is_newer else ""
        if status.finished is None and not note and not run.is_owned:
            if not run.is_of_this_host:
                note = f"on {run.record.host}"
            elif status.started is not None:
                note, status = PROCESS_KILLED, lost_status(run, status)
        return summary(run, status, note)

    def active(self) -> list[StoredRun]:
        """Return the runs of this machine that have not finished."""
        found = [run for run in self.store.active_runs() if run.is_of_this_host and not run.is_newer]
        return [run for run in found if self.namespace in ("", run.record.namespace)]

    def waits_for_service(self, found: Sequence[Status]) -> int:
        """Return how many of the runs wait only because the service is not running."""
        waiting = [each for each in found if each.started is None and each.mode == DETACHED and not each.is_over]
        queued = [each for each in waiting if each.reason not in NEED_RESUME]
        return 0 if not queued or service_is_running(self.store.state) else len(queued)

    def service_log(self) -> Path:
        return ServicePaths(self.store.state).log

    def notices(self) -> list[str]:
        """Return the messages of the service that no command has printed yet: interrupted runs, removed runs."""
        return ServicePaths(self.store.state).take_notices()
