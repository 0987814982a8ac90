"""Everything that the page shows, behind one object: it reads through the port, and works in threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec

from pumice.client.backend import Backend, RunRef
from pumice.client.observer import ListedRun, Observed, Observer
from pumice.diagnosis.failures import Failure
from pumice.model.job import TaskSpec
from pumice.runtime.recently_used import RecentlyUsed
from pumice.ui.data.actions import act, action_plan
from pumice.ui.data.jobs import JobData, RunList, counts
from pumice.ui.data.logs import RunLog
from pumice.ui.data.machine import info
from pumice.ui.data.metrics import RunSeries, metrics
from pumice.ui.data.pods import PodFacts, common_limits, page_of, pod_names, pod_page
from pumice.ui.data.policies import file, policies, yaml_of
from pumice.ui.data.rendered import RenderedPods
from pumice.ui.data.states import attempt_states
from pumice.ui.data.timeline import timeline
from pumice.ui.detail_values import (
    ActionPlan,
    ActionResult,
    Events,
    File,
    Frame,
    JobView,
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

_MOST_ROWS: Final = 50  # that a stream sends at once
_MOST_LINES: Final = 500
_LINES_A_SECOND: Final = 500  # above it, the merged log shows a share
_FEWEST_LINES: Final = 100  # that are worth a share
_MOST_PODS: Final = 200
_LISTED: Final = 20.0  # seconds within which a new run is in the list
_MOST_PLOTS: Final = 8  # that are kept
_MOST_SAMPLED: Final = 4
_MOST_LOGS: Final = 3
_MOST_EVENTS: Final = 200  # of a page
Changes = list[tuple[str, Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenJobs:
    """What a browser has of the list: each run, and its version."""

    runs: Sequence[ListedRun]
    versions: Mapping[RunRef, int]


@dataclass(slots=True)
class PageData:
    backend: Backend
    observer: Observer = field(init=False)
    runs: RunList = field(init=False)
    jobs: JobData = field(init=False)
    # Of the runs that were looked at last.
    _samples: RecentlyUsed[RunRef, RunSeries] = field(default_factory=lambda: RecentlyUsed(_MOST_SAMPLED))
    _logs: RecentlyUsed[str, RunLog] = field(default_factory=lambda: RecentlyUsed(_MOST_LOGS))  # by uid
    # With the size of the samples.
    _plots: RecentlyUsed[tuple[Any, ...], tuple[int, Metrics]] = field(
        default_factory=lambda: RecentlyUsed(_MOST_PLOTS)
    )
    _rendered: RenderedPods = field(default_factory=RenderedPods)
    # No history is continued while it is read. Logs may be large: while they are read, all else can be.
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _log_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.observer = self.backend.observe()
        self.runs = RunList(self.backend, self.observer)
        self.jobs = JobData(self.backend, self.observer, self.runs)

    def _series(self, run: RunRef) -> RunSeries:
        return self._samples.keep(run, self._samples.get(run) or RunSeries(self.observer.samples(run)))

    async def frame(self, token: str) -> Frame:
        return Frame(await self.info(), token, self.observer.scope)

    async def info(self) -> Info:
        capacity, notices = await self.observer.capacity(), self.observer.notices()
        return info(capacity, self.observer.scope.name, self.backend.now(), notices)

    async def listing(self, group: Group, q: str, after: str) -> Listing:
        async with self._lock:
            return await self.jobs.listing(group, q, after)

    async def job(self, uid: str) -> Job:
        async with self._observe(uid) as seen:
            return await self.jobs.job(seen)

    async def job_view(self, frame: Frame, query: JobQuery) -> JobView:
        """Return a page of one job, with what its tab shows; `with_logs` adds the logs."""
        job = await self.job(query.uid)
        attempt = job.attempt if query.attempt is None else query.attempt
        view = JobView(frame, job, query.tab, attempt, query.log_filter(job.attempt))
        match query.tab:
            case "resources":
                return replace(view, metrics=await self.metrics(query), pods=await self.pods(query))
            case "rendered":
                return replace(view, rendered=await self.rendered(query))
            case "events":
                return replace(view, events=await self.events(query))
            case "policies":
                return replace(view, policies=await self.policies(query), file=await self.file(query))
        blamed = query if query.pod or job.verdict is None else replace(query, pod=job.verdict.pod)
        view = replace(view, timeline=await self.timeline(query), pods=await self.pods(query))
        return replace(view, metrics=await self.metrics(blamed))

    @asynccontextmanager
    async def _observe(self, uid: str) -> AsyncIterator[Observed]:
        """Hold the lock while a run is looked at."""
        async with self._lock:
            yield await self.runs.observe(uid)

    async def _read(self, uid: str, work: Callable[[Observed], T]) -> T:
        """Call a function of a run in a thread."""
        async with self._observe(uid) as seen:
            return await asyncio.to_thread(work, seen)

    async def timeline(self, query: JobQuery) -> Timeline:
        now = self.backend.now()

        def work(seen: Observed) -> Timeline:
            log = self._logs.get(seen.ref.uid)
            return timeline(seen, query, now, {} if log is None else log.last_times())

        return await self._read(query.uid, work)

    async def pods(self, query: JobQuery) -> PodPage:
        async with self._observe(query.uid) as seen:
            history, attempt = seen.history, _attempt(seen, query)
            states = await asyncio.to_thread(attempt_states, history, attempt or history.attempt, over=seen.is_over)
            samples = await self._series(seen.ref).read(states.attempt)
            addresses = await self.observer.addresses(seen, page_of(pod_names(history, states), query.after))
            ranks = await asyncio.to_thread(self._rendered.ranks, history)
            return await asyncio.to_thread(pod_page, history, states, query.after, PodFacts(samples, ranks, addresses))

    async def metrics(self, query: JobQuery) -> Metrics:
        async with self._observe(query.uid) as seen:
            attempt = _attempt(seen, query)
            key = (seen.ref, attempt, query.pod, query.step)
            series = self._series(seen.ref)
            size = await series.samples.size()
            if key in self._plots and self._plots[key][0] == size:
                return self._plots[key][1]
            found = await series.read(attempt)
            limits = common_limits(seen.history)
            plots = await asyncio.to_thread(metrics, found, attempt, query.pod, query.step, limits)
            return self._plots.keep(key, (size, plots))[1]

    async def rendered(self, query: JobQuery) -> Rendered:
        async with self._observe(query.uid) as seen:
            attempt = _attempt(seen, query)
            found = await asyncio.to_thread(self._rendered.rendered, seen.history, query.pod, attempt, query.compare)
            created = None if found.message else await self.observer.manifest(seen.ref, found.pod, attempt)
            return found if created is None else msgspec.structs.replace(found, manifest=yaml_of(created))

    async def policies(self, query: JobQuery) -> Policies:
        return await self._read(query.uid, lambda seen: policies(seen.history))

    async def file(self, query: JobQuery) -> File:
        async with self._observe(query.uid) as seen:
            document = await self.observer.document(seen)
            return await asyncio.to_thread(file, seen.history, document)

    async def events(self, query: JobQuery) -> Events:
        """Return the newest events, or those before a sequence number."""
        before = query.after_number

        def page(seen: Observed) -> Events:
            log = seen.history.events
            newest = [each for each in log.newest() if before is None or each.seq < before]
            items = tuple(newest[:_MOST_EVENTS])
            return Events(total=log.total, items=items, after=items[-1].seq if len(newest) > _MOST_EVENTS else None)

        return await self._read(query.uid, page)

    async def action_plan(self, uid: str, name: str) -> ActionPlan:
        async with self._observe(uid) as seen:
            return await asyncio.to_thread(action_plan, seen, name, await self.observer.refusals(seen))

    async def act(self, uid: str, name: str) -> ActionResult:
        async with self._observe(uid) as seen:
            refusals = await self.observer.refusals(seen)
        try:
            result = await act(self.backend, seen, name, refusals)
        finally:
            self.observer.forget()
        if result.done and result.uid not in ("", uid):
            await self._list(result.uid)
        return result

    async def _list(self, uid: str) -> None:
        """Wait until a new run is listed, as the browser opens its page: a cluster tells of it a moment later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LISTED):
                while True:
                    async with self._lock:
                        if any(each.ref.uid == uid for each in await self.runs.read()):
                            return
                    await asyncio.sleep(_LISTED / 400)

    # --- logs -----------------------------------------------------------------------------------------------------

    async def _open_log(self, query: JobQuery) -> tuple[RunLog, LogFilter]:
        """Return the log of a run with the lines that were printed by now. The lock of the logs is held."""
        index = await self.runs.log(query.uid)
        async with self._observe(query.uid) as seen:
            marks, newest = seen.history.events.marks[len(index.marks) :], seen.history.seq
            chosen = query.log_filter(seen.history.attempt)
        await asyncio.to_thread(index.number, marks, newest)
        log = self._logs.get(seen.ref.uid)
        log = RunLog(index) if log is None or log.index is not index else log
        return self._logs.keep(seen.ref.uid, log), chosen

    async def _first_failure(self, uid: str, attempt: int) -> Failure | None:
        """Return what failed first in an attempt, or in the newest."""

        def first(seen: Observed) -> Failure | None:
            return next(iter(seen.history.failures(attempt or seen.history.attempt).in_order()), None)

        return await self._read(uid, first)

    async def logs(self, query: JobQuery) -> LogWindow:
        async with self._log_lock:
            log, chosen = await self._open_log(query)
            return await asyncio.to_thread(
                _window, log, chosen, query, await self._first_failure(query.uid, chosen.attempt)
            )

    async def search(self, query: JobQuery) -> SearchResult:
        async with self._log_lock:
            log, chosen = await self._open_log(query)
            return await asyncio.to_thread(log.search, chosen, query.q, query.after_number or 0)

    async def volume(self, query: JobQuery) -> Volume:
        async with self._log_lock:
            log, chosen = await self._open_log(query)
            return await asyncio.to_thread(log.volume, chosen)

    async def with_logs(self, view: JobView, query: JobQuery) -> JobView:
        async with self._log_lock:
            log, chosen = await self._open_log(query)
            failure = await self._first_failure(query.uid, chosen.attempt)

            def read() -> JobView:
                search, at = log.search(chosen, query.q, query.after_number or 0) if query.q else None, query.at
                if at is None and search is not None and search.positions:
                    at = 0 if query.only else max(0, search.positions[0] - 10)
                window = _window(log, chosen, replace(query, at=at), failure)
                return replace(view, logs=window, volume=log.volume(chosen), search=search)

            return await asyncio.to_thread(read)

    async def tasks(self, uid: str) -> Sequence[TaskSpec]:
        return await self._read(uid, lambda seen: seen.history.job.spec.tasks)

    # --- changes --------------------------------------------------------------------------------------------------

    async def changed_jobs(self, seen: SeenJobs | None) -> tuple[SeenJobs, Changes]:
        """Return the jobs that have changed since `seen`, and what is seen now."""
        async with self._lock:
            runs = await self.runs.read()
            if seen is not None and seen.runs is runs:
                return seen, []
            now = SeenJobs(runs, {each.ref: each.version for each in runs})
            if seen is None:
                return now, []
            changed = [each for each in runs if seen.versions.get(each.ref) != each.version]
            changes: Changes = [("job", await self.jobs.row(each)) for each in changed[:_MOST_ROWS]]
            gone = len(seen.versions.keys() - now.versions.keys())
            if changed or gone:
                changes.append(("jobs", {"counts": counts(runs), "changed": len(changed), "gone": gone}))
            return now, changes

    async def changed_job(self, query: JobQuery, at: JobPosition) -> tuple[JobPosition, Changes]:
        """Return what has changed in a job since a position, and the position now."""
        async with self._observe(query.uid) as seen:
            history = seen.history
            samples = await self._series(seen.ref).samples.size()
            now = JobPosition(history.seq, at.lines, samples)
            changes: Changes = []
            if history.seq != at.seq:
                changes.append(("job", await self.jobs.job(seen)))
                changes.append(("event", {"seq": history.seq, "total": history.events.total}))
                if history.phases:
                    changes.append(("phase", history.phases[-1]))
                changes.append(("pod", await asyncio.to_thread(_changed_pods, seen, at.seq)))
            if samples != at.samples and samples:
                changes.append(("metric", {"size": samples}))
            return now, changes

    async def changed_waiting(self, query: JobQuery, seen: Waiting | None) -> tuple[Waiting | None, Changes]:
        """Return why a job waits, and a change if that was not seen: the journal says nothing about the queue."""
        async with self._observe(query.uid) as run:
            now = await self.jobs.waiting(run, with_queue=True)
            return now, [] if now is None or now == seen else [("job", await self.jobs.job(run))]

    async def new_lines(self, query: JobQuery, at: JobPosition, seconds: float | None = None) -> LogWindow | None:
        """Return the lines after a position, at most the newest ones; None if there are none.

        `seconds` is the time since that position: if more lines came than can be read, and no pod was chosen, only a
        share of them is returned.
        """
        async with self._log_lock:
            log, chosen = await self._open_log(query)
            return await asyncio.to_thread(_new_lines, log, chosen, at, seconds)


def _attempt(seen: Observed, query: JobQuery) -> int:
    return seen.history.attempt if query.attempt is None else query.attempt


def _window(log: RunLog, chosen: LogFilter, query: JobQuery, failure: Failure | None) -> LogWindow:
    """Return lines, and the number of the line that the verdict names; else of the first line with an error."""
    if query.only and query.q:
        window = log.matching(chosen, query.q, query.at, query.lines)
    else:
        window = log.window(chosen, query.at, query.lines, whole=query.whole)
    found = None
    if failure is not None:
        found = log.find(chosen, failure.pod.short_name, failure.attempt, failure.end.last_line)
    return msgspec.structs.replace(window, first_error=log.first_error(chosen) if found is None else found)


def _changed_pods(seen: Observed, since: int) -> dict[str, Any]:
    history = seen.history
    states = attempt_states(history, history.attempt, over=seen.is_over).states
    pods = [life for life in history.lives.values() if life.seq > since >= 0]
    shown = [{"pod": each.name, "state": states.get(each.name)} for each in pods[-_MOST_PODS:]]
    return {"attempt": history.attempt, "items": shown, "changed": len(pods)}


def _new_lines(log: RunLog, chosen: LogFilter, at: JobPosition, seconds: float | None) -> LogWindow | None:
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
