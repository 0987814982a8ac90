"""Everything that the page shows, behind one object. Its methods read files, so call them in threads.

One thread calls the methods for logs, which may be large, and another one all others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Final

import msgspec

from pumice.client.local_client import LocalClient
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.run_store import StoredRun
from pumice.ui.data.actions import act, action_plan
from pumice.ui.data.history import RunHistory
from pumice.ui.data.jobs import JobData
from pumice.ui.data.log_index import Mark
from pumice.ui.data.logs import Logs, RunLog
from pumice.ui.data.machine import MachineData
from pumice.ui.data.metrics import SampleCache, metrics, sample_size
from pumice.ui.data.pods import limits_of, pod_page
from pumice.ui.data.policies import file, policies
from pumice.ui.data.rendered import RenderedPods
from pumice.ui.data.runs import RunTable, group_of, is_over
from pumice.ui.data.states import attempt_states
from pumice.ui.data.timeline import TimelineQuery, timeline
from pumice.ui.detail_values import (
    ActionPlan,
    ActionResult,
    Events,
    File,
    LogFilter,
    LogWindow,
    Metrics,
    PodPage,
    Policies,
    Rendered,
    SearchResult,
    Timeline,
    Volume,
)
from pumice.ui.queries import JobPosition, JobQuery
from pumice.ui.values import Group, Info, Job, Listing, Waiting
from pumice.ui.views import Frame, JobView

_MOST_ROWS: Final = 50  # that a stream sends at once
_MOST_LINES: Final = 500
_LINES_A_SECOND: Final = 500  # above it, the merged log shows a share
_FEWEST_LINES: Final = 100  # that are worth a share
_MOST_PODS: Final = 200
_MOST_PLOTS: Final = 8  # that are kept
Changes = list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class SeenJobs:
    """What a browser has of the list: when each run was last written, by directory."""

    version: int
    changed: Mapping[str, int]


class NoSuchJobError(LookupError):
    """No run has this uid. `gone` has the name of a run that was removed while the page was open, and when."""

    def __init__(self, uid: str, gone: tuple[str, dt.datetime] | None = None) -> None:
        super().__init__(f"{uid}: no run has this uid" if gone is None else f"{gone[0]} was deleted, with its record")
        self.gone = gone


@dataclass(slots=True)
class PageData:
    client: LocalClient
    runs: RunTable = field(init=False)
    machine: MachineData = field(init=False)
    jobs: JobData = field(init=False)
    _logs: Logs = field(default_factory=Logs)
    _samples: SampleCache = field(default_factory=SampleCache)
    _plots: dict[tuple[Any, ...], tuple[int, Metrics]] = field(default_factory=dict)  # with the size of the samples
    _rendered: RenderedPods = field(default_factory=RenderedPods)
    _lock: RLock = field(default_factory=RLock)  # of all but the logs

    def __post_init__(self) -> None:
        self.runs, self.machine = RunTable(self.client), MachineData(self.client)
        self.jobs = JobData(self.client, self.runs, self.machine)

    def run(self, uid: str) -> StoredRun:
        """Return the run of a uid, or of a name such as `ddp:3`. Raises NoSuchJobError."""
        with self._lock:
            run = self.runs.find(uid)
            if run is None:
                try:
                    run = self.client.find(uid)
                except RunError as error:
                    raise NoSuchJobError(uid, self.runs.gone.get(uid)) from error
            return run

    def info(self) -> Info:
        with self._lock:
            return self.machine.info()

    def listing(self, group: Group, q: str, after: str) -> Listing:
        with self._lock:
            return self.jobs.listing(group, q, after)

    def job(self, uid: str) -> Job:
        with self._lock:
            return self.jobs.job(self.run(uid))

    def job_view(self, frame: Frame, query: JobQuery) -> JobView:
        """Return a page of one job, with what its tab shows; `with_logs` adds the logs."""
        job = self.job(query.uid)
        attempt = job.attempt if query.attempt is None else query.attempt
        view = JobView(frame, job, query.tab, attempt, query.log_filter(job.attempt))
        match query.tab:
            case "resources":
                return replace(view, metrics=self.metrics(query), pods=self.pods(query))
            case "rendered":
                return replace(view, rendered=self.rendered(query))
            case "events":
                return replace(view, events=self.events(query))
            case "policies":
                return replace(view, policies=self.policies(query), file=self.file(query))
        blamed = query if query.pod or job.verdict is None else replace(query, pod=job.verdict.pod)
        return replace(view, timeline=self.timeline(query), pods=self.pods(query), metrics=self.metrics(blamed))

    def _history(self, query: JobQuery) -> tuple[RunHistory, int]:
        """Return the history of a run, and the attempt that was chosen."""
        history = self.runs.history(self.run(query.uid))
        return history, history.attempt if query.attempt is None else query.attempt

    def timeline(self, query: JobQuery) -> Timeline:
        """Without `attempt` all attempts are shown, as they are on the page."""
        with self._lock:
            history, _ = self._history(query)
            last_lines = self._logs.last_times(history.run.record.uid)
            asked = TimelineQuery(query.attempt or 0, query.buckets, query.every)
            return timeline(history, asked, self.client.now(), last_lines)

    def pods(self, query: JobQuery) -> PodPage:
        with self._lock:
            history, attempt = self._history(query)
            run = history.run
            states = attempt_states(history, attempt or history.attempt, over=is_over(run, run.status()))
            found = self._samples.of(run, states.attempt)
            return pod_page(history, states, found, query.after, self._rendered.ranks(history))

    def metrics(self, query: JobQuery) -> Metrics:
        with self._lock:
            history, attempt = self._history(query)
            key = (history.run.record.uid, attempt, query.pod, query.step)
            size = sample_size(history.run)
            if key in self._plots and self._plots[key][0] == size:
                return self._plots[key][1]
            found = self._samples.of(history.run, attempt)
            tasks = [limits_of(task) for task in history.job.spec.tasks]
            cpu, memory = {each.cpu for each in tasks}, {each.memory for each in tasks}
            limits = {
                "cpu": cpu.pop() if len(cpu) == 1 else None,
                "memory": memory.pop() if len(memory) == 1 else None,
            }
            while len(self._plots) >= _MOST_PLOTS:
                self._plots.pop(next(iter(self._plots)))
            self._plots[key] = (size, metrics(found, attempt, query.pod, query.step, limits))
            return self._plots[key][1]

    def rendered(self, query: JobQuery) -> Rendered:
        with self._lock:
            history, attempt = self._history(query)
            return self._rendered.rendered(history, query.pod, attempt, query.compare)

    def policies(self, query: JobQuery) -> Policies:
        with self._lock:
            return policies(self._history(query)[0])

    def file(self, query: JobQuery) -> File:
        with self._lock:
            return file(self._history(query)[0])

    def events(self, query: JobQuery) -> Events:
        with self._lock:
            return self.runs.history(self.run(query.uid)).events.page(query.after_number)

    def action_plan(self, uid: str, name: str) -> ActionPlan:
        with self._lock:
            return action_plan(self.runs.history(self.run(uid)), name)

    def act(self, uid: str, name: str) -> ActionResult:
        try:
            return act(self.client, self.run(uid), name)
        finally:
            with self._lock:
                self.runs.forget()
                self.machine.forget()

    # --- logs -----------------------------------------------------------------------------------------------------

    def _log(self, query: JobQuery) -> tuple[RunLog, LogFilter]:
        run = self.run(query.uid)
        status = run.status()

        def marks() -> tuple[Sequence[Mark], int]:
            with self._lock:
                history = self.runs.history(run)
                return history.marks, history.seq

        with self._lock:
            newest = self.runs.history(run).attempt
        live = not is_over(run, status)
        return self._logs.of(run.record.uid, run.directory, live=live, marks=marks), query.log_filter(newest)

    def logs(self, query: JobQuery) -> LogWindow:
        log, chosen = self._log(query)
        if query.only and query.q:
            window = log.matching(chosen, query.q, query.at, query.lines)
        else:
            window = log.window(chosen, query.at, query.lines, whole=query.whole)
        first = self._blamed(log, chosen, query.uid)
        return msgspec.structs.replace(window, first_error=first)

    def _blamed(self, log: RunLog, chosen: LogFilter, uid: str) -> int | None:
        """Return the number of the line that the verdict names; else of the first line with an error."""
        with self._lock:
            history = self.runs.history(self.run(uid))
            failures = attempt_states(history, chosen.attempt or history.attempt, over=False).failures
        found = None
        if failures:
            first = failures[0]
            found = log.find(chosen, first.pod.short_name, first.attempt, first.end.last_line)
        return log.first_error(chosen) if found is None else found

    def search(self, query: JobQuery) -> SearchResult:
        log, chosen = self._log(query)
        return log.search(chosen, query.q, query.after_number or 0)

    def volume(self, query: JobQuery) -> Volume:
        log, chosen = self._log(query)
        return log.volume(chosen)

    def with_logs(self, view: JobView, query: JobQuery) -> JobView:
        search = self.search(query) if query.q else None
        at = query.at
        if at is None and search is not None and search.positions:
            at = 0 if query.only else max(0, search.positions[0] - 10)
        return replace(view, logs=self.logs(replace(query, at=at)), volume=self.volume(query), search=search)

    # --- changes --------------------------------------------------------------------------------------------------

    def changed_jobs(self, seen: SeenJobs | None) -> tuple[SeenJobs, Changes]:
        """Return the jobs that have changed since `seen`, and what is seen now."""
        with self._lock:
            version = self.runs.refresh()
            if seen is not None and seen.version == version:
                return seen, []
            known = {each.directory: each for each in self.runs.all()}
            now = SeenJobs(version, {directory: each.changed for directory, each in known.items()})
            if seen is None:
                return now, []
            changed = [each for each, moment in now.changed.items() if seen.changed.get(each) != moment]
            changes: Changes = [("job", self.jobs.row(known[directory])) for directory in changed[:_MOST_ROWS]]
            gone = sum(directory not in known for directory in seen.changed)
            if changed or gone:
                changes.append(("jobs", {"counts": self.jobs.counts(), "changed": len(changed), "gone": gone}))
            return now, changes

    def changed_job(self, query: JobQuery, at: JobPosition) -> tuple[JobPosition, Changes]:
        """Return what has changed in a job since a position, and the position now."""
        with self._lock:
            run = self.run(query.uid)
            history = self.runs.history(run)
            samples = sample_size(run)
            now = JobPosition(history.seq, at.lines, samples)
            changes: Changes = []
            if history.seq != at.seq:
                job = self.jobs.job(run)
                states = attempt_states(history, history.attempt, over=is_over(run, run.status())).states
                pods = [life for life in history.lives.values() if life.seq > at.seq and at.seq >= 0]
                changes.append(("job", job))
                changes.append(("event", {"seq": history.seq, "total": history.events.total}))
                if history.phases:
                    changes.append(("phase", history.phases[-1]))
                shown = [{"pod": each.name, "state": states.get(each.name)} for each in pods[-_MOST_PODS:]]
                changes.append(("pod", {"attempt": history.attempt, "items": shown, "changed": len(pods)}))
            if samples != at.samples and samples:
                changes.append(("metric", {"size": samples}))
            return now, changes

    def changed_waiting(self, query: JobQuery, seen: Waiting | None) -> tuple[Waiting | None, Changes]:
        """Return why a job waits, and a change if that was not seen: the journal says nothing about the queue."""
        with self._lock:
            run = self.run(query.uid)
            waiting = group_of(run.status()) is Group.WAITING
            now = self.machine.waiting(run, with_queue=True) if waiting else None
            return now, [] if now is None or now == seen else [("job", self.jobs.job(run))]

    def new_lines(self, query: JobQuery, at: JobPosition, seconds: float | None = None) -> LogWindow | None:
        """Return the lines after a position, at most the newest ones; None if there are none.

        `seconds` is the time since that position: if more lines came than can be read, and no pod was chosen, only a
        share of them is returned.
        """
        log, chosen = self._log(query)
        total = log.view(chosen).total
        if total == at.lines:
            return None
        if at.lines < 0:
            return log.window(chosen, total, 1)
        most = max(_FEWEST_LINES, int(_LINES_A_SECOND * (seconds or 0.0)))
        if seconds and total - at.lines > most and not chosen.pod:
            shared = log.share(chosen, at.lines, most)
            return msgspec.structs.replace(shared, rate=round((total - at.lines) / seconds))
        return log.window(chosen, max(at.lines, total - _MOST_LINES), _MOST_LINES)
