"""Reads the Jobs of a cluster for the page: watches keep them current, so that each call reads memory."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pumice.client.backend import Change, RemoveRun, RestartRun, ResumeRun, RunRef, StopRun, SuspendRun
from pumice.client.cluster.connection import Connection, gone
from pumice.client.cluster.job_facts import ClusterPod, JobFacts, in_order
from pumice.client.cluster.journal_entries import JobJournal, record_of
from pumice.client.cluster.live.cluster_capacity import ClusterCapacity
from pumice.client.cluster.live.job_table import JobTable, SeenJob
from pumice.client.cluster.live.open_job import OpenJob
from pumice.client.cluster.live_objects import LiveTable, within
from pumice.client.observer import Capacity, ListedRun, Observed, PodAddress, Refusals, Repeat, Scope, WaitingRun
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.why import Why, WhyCode
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import COMMANDS, JOBS, PODS, Resource
from pumice.model.job import Manifest
from pumice.model.slot import slots
from pumice.model.snapshot import PodPhase
from pumice.model.text import escaped
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.history.run_history import RunHistory
from pumice.store.run_errors import ConnectionFailed, Denied, StoreError
from pumice.store.sample_file import Sample

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.store.logs.log_source import LogBatch
    from pumice.store.logs.numbered_log import NumberedLog

_MOST_HISTORIES: Final = 256
_MOST_OPEN: Final = 4
_TIDY: Final = 15.0  # seconds
_PATIENCE: Final = 2.0  # seconds that a page waits for what it can be drawn without
_WHY_PATIENCE: Final = 8.0
_OVER: Final = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.STOPPED, Outcome.SUSPENDED})
_FRESH: Final = 60.0  # seconds for which an answer about a right holds
_RIGHTS_PATIENCE: Final = 3.0
Right = tuple[str, Resource]  # a verb, and what it is about
_STOP: Final[Right] = ("create", COMMANDS)
_RIGHTS: Final[Mapping[type[Change | Repeat], Right]] = {
    StopRun: _STOP,
    SuspendRun: _STOP,
    ResumeRun: _STOP,
    RestartRun: _STOP,
    RemoveRun: ("delete", JOBS),
    Repeat: ("create", JOBS),
}


class NoSamples(Struct, frozen=True):
    """Nothing records what pods of a cluster use."""

    async def size(self) -> int:
        return 0

    async def new(self) -> AsyncGenerator[Sequence[Sample], None]:
        return
        yield


@dataclass(slots=True)
class KeptHistory:
    """The history of one Job, with what was seen before it was deleted, such as the pods of earlier attempts."""

    journal: JobJournal
    seen: tuple[int, int] = (-1, -1)  # versions of the Job and of its events

    @property
    def history(self) -> RunHistory:
        return self.journal.history

    def add(self, facts: JobFacts, now: dt.datetime) -> None:
        """Add what is new. End the pods that were deleted; forget those that the Job no longer has: it was scaled."""
        if self.history.outcome is not None and facts.job.status.state.phase != self.history.job.status.state.phase:
            # It ended, or was suspended, and goes on.
            self.journal = JobJournal(record_of(facts), by_time=True)
        self.journal.add(facts)
        self.history.renew(facts.job)
        lives = self.history.lives
        deleted = lives.keys() - {each.observed.uid for each in facts.pods}
        names = {slot.short_name for slot in slots(facts.job)} if deleted else set[str]()
        for uid in deleted:
            if lives[uid].name in names:
                lives[uid].end(now)
            else:
                del lives[uid]


@dataclass(slots=True)
class ClusterObserver:
    backend: ClusterBackend
    table: JobTable = field(init=False)
    rights: Rights = field(init=False)
    _capacity: ClusterCapacity = field(init=False)
    _reserved: str = ""
    _histories: RecentlyUsed[str, KeptHistory] = field(default_factory=lambda: RecentlyUsed(_MOST_HISTORIES))  # by uid
    _open: OrderedDict[str, OpenJob] = field(default_factory=OrderedDict)  # by uid, the last used last
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _lost: dt.datetime | None = None  # since when the cluster does not answer
    _tidier: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        connection = self.backend.connection
        self.table, self.rights = JobTable(connection), Rights(connection)
        self._capacity = ClusterCapacity(connection, self.table)

    @property
    def scope(self) -> Scope:
        name, namespace = self.backend.name, self.backend.connection.namespace
        return Scope(
            name=f"{name}/{namespace}" if namespace else f"{name}, all namespaces",
            reserved=self._reserved,
            measures=False,
            shows_pods=self._shows_pods,
            has_queue=False,
            everywhere=not namespace,
            first_command="kubectl create -f job.yaml",
        )

    async def open(self) -> None:
        """Read all Jobs and pods. Raises RunError."""
        if self._tidier is None:
            self._tidier = asyncio.create_task(self._tidy())
        tables: Sequence[LiveTable[object]] = (self.table.jobs, self.table.pods, self.table.commands)  # type: ignore[assignment]
        await asyncio.gather(*(each.first() for each in tables))
        if self.table.jobs.failure is not None:
            raise self.table.jobs.failure
        if not self.table.jobs.items:
            await self.backend.connection.check_namespace()

    async def close(self) -> None:
        if self._tidier is not None:
            self._tidier.cancel()
            await asyncio.gather(self._tidier, return_exceptions=True)
            self._tidier = None
        await asyncio.gather(*(each.close() for each in self._open.values()))
        await self._capacity.close()
        await self.table.jobs.close()
        await self.table.pods.close()
        await self.table.commands.close()

    def notices(self) -> Sequence[str]:
        found: list[str] = []
        jobs, pods = self.table.jobs.failure, self.table.pods.failure
        lost = jobs or (pods if isinstance(pods, ConnectionFailed) else None)
        if lost is not None:
            self._lost = self._lost or self.backend.now()
            what = f"what is shown is from {self._lost.astimezone():%H:%M:%S}"
            found.append(f"{escaped(lost.problem.message)}; {what}, and is read again as soon as it answers")
        else:
            self._lost = None
        if isinstance(pods, Denied):
            found.append(f"pods are not readable for you, so nothing is shown of them: {pods.problem.hint}")
        failures = [each.follower.failure for each in self._open.values() if each.follower is not None]
        for failure in failures:
            if isinstance(failure, Denied) and self._shows_pods:
                found.append(f"logs are not readable for you: {failure.problem.hint}")
            elif isinstance(failure, StoreError):
                found.append(failure.problem.message)
        return tuple(dict.fromkeys(found))

    @property
    def _shows_pods(self) -> bool:
        return not isinstance(self.table.pods.failure, Denied)

    @property
    def _is_lost(self) -> bool:
        return isinstance(self.table.jobs.failure, ConnectionFailed)

    def forget(self) -> None:
        """Watches see what was changed."""

    # --- runs -----------------------------------------------------------------------------------------------------

    async def runs(self) -> Sequence[ListedRun]:
        await self.table.jobs.first()
        await self.table.pods.first()
        return self.table.runs

    async def observe(self, run: RunRef, *, whole: bool = True) -> Observed:
        job = await self._job(run)
        events = (await self._opened(run)) if whole else self._open.get(run.uid)
        seen = (self.table.version(run.uid), 0 if events is None else events.version)
        flags = self.backend.connection.flags(run.namespace)
        async with self._lock:
            kept = self._histories.pop(run.uid, None)
            if kept is None or kept.seen != seen:
                commands = self.table.commands_of(run.uid)
                facts = JobFacts.of(
                    job.read(),
                    self.table.pods_of(run.uid),
                    commands if events is None else events.facts(),
                    unreadable=() if self._shows_pods else ("pods",),
                    where=flags,
                )
                kept = kept or KeptHistory(JobJournal(record_of(facts), by_time=True))
                await asyncio.to_thread(kept.add, facts, self.backend.now())
                kept.seen = seen
            self._histories.keep(run.uid, kept)
        status = kept.history.status
        over = status.outcome in _OVER
        return Observed(
            run,
            kept.history,
            status,
            status.outcome,
            is_over=over,
            has_process=not over,
            pods_known=self._shows_pods,
            flags=flags,
        )

    async def _job(self, run: RunRef) -> SeenJob:
        await self.table.jobs.first()
        if (found := self.table.jobs.items.get(run.uid)) is None:
            raise gone(str(run))
        return found

    # --- one Job --------------------------------------------------------------------------------------------------

    async def _opened(self, run: RunRef) -> OpenJob:
        """Return what is read of a Job that somebody looks at."""
        found = self._open.pop(run.uid, None)
        if found is None:
            found = OpenJob(self.backend.connection, run)
        found.use()
        self._open[run.uid] = found
        while len(self._open) > _MOST_OPEN:
            await self._open.popitem(last=False)[1].close()
        found.events.start()
        if not found.has_events:
            # They may come later.
            await within(_PATIENCE, found.events.first())
            found.has_events = True
        return found

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(_TIDY)
            for uid in [uid for uid, each in self._open.items() if each.is_idle]:
                await self._open.pop(uid).close()

    async def log(self, run: RunRef) -> NumberedLog:
        seen = await self.observe(run)
        pods = in_order(seen.history.job, self.table.pods_of(run.uid))
        return await (await self._opened(run)).log(seen.history.job, pods, live=not seen.is_over)

    async def newest_line(self, run: RunRef) -> LogBatch | None:
        """Return that of a Job whose logs are read anyway."""
        found = self._open.get(run.uid)
        return None if found is None or found.follower is None else found.follower.newest

    async def waiting(self, run: Observed, *, whole: bool = True) -> WaitingRun | None:
        record = run.record
        why = Why(run=record.ref, code=WhyCode.RESOURCES, since=record.created, message=_reason(run))
        opened = await self._opened(run.ref) if whole else None
        if opened is not None and not self._is_lost:
            version = self.table.version(run.ref.uid) + opened.version
            with suppress(ConnectionFailed, TimeoutError):
                async with asyncio.timeout(_WHY_PATIENCE):
                    why = await opened.why(version, lambda: self.backend.why(run.ref))
        return WaitingRun(record.ref, record.uid, {}, run.history.job.total_replicas, why)

    async def refusals(self, run: Observed) -> Refusals:
        return await self.rights.refusals(run.ref, asks=not self._is_lost)

    async def document(self, run: Observed) -> Manifest | None:
        return (await self._job(run.ref)).read()[0]

    async def manifest(self, run: RunRef, pod: str, attempt: int = 0) -> Manifest | None:
        names = {each.observed.short_name: each for each in self.table.pods_of(run.uid)}
        found: ClusterPod | None = names.get(pod)
        if found is None or attempt not in (0, found.observed.retry + 1):
            return None
        raw = await self.backend.connection.get(PODS, found.namespace, found.name)
        if raw is None:
            return None
        manifest: Manifest = msgspec.json.decode(raw)
        manifest["metadata"].pop("managedFields", None)
        return manifest

    async def addresses(self, run: Observed, pods: Sequence[str]) -> Mapping[str, PodAddress]:
        found = {each.observed.short_name: each for each in self.table.pods_of(run.ref.uid)}
        return {name: PodAddress(found[name].node, found[name].address) for name in pods if name in found}

    def samples(self, run: RunRef) -> NoSamples:
        del run
        return NoSamples()

    async def capacity(self) -> Capacity:
        found, self._reserved = await self._capacity.read()
        return found


def _reason(run: Observed) -> str:
    """Return what the Job or one of its pods says about its wait: whatever needs no other object."""
    state = run.history.job.status.state
    if text := state.message or state.reason:
        return text
    waits = (pod for pod in run.history.pods.values() if pod.phase is PodPhase.PENDING and pod.waiting is not None)
    for pod in waits:
        if pod.waiting is not None and (text := pod.waiting.message or pod.waiting.reason):
            return f"{pod.short_name}: {text}"
    return "waits for its start" if state.phase else "no controller has looked at it yet"


@dataclass(slots=True)
class Rights:
    """Why a change of a Job is refused: a right that this user lacks."""

    connection: Connection
    clock: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, Right], tuple[float, bool]] = field(default_factory=dict)  # by namespace

    async def refusals(self, run: RunRef, *, asks: bool = True) -> Refusals:
        """Return for each change why it cannot be made. One that is not in it can be. `asks`: the server answers."""
        rights = tuple(dict.fromkeys(_RIGHTS.values()))
        answers = await asyncio.gather(*(self._may(run.namespace, each) for each in rights)) if asks else [True] * 3
        allowed = dict(zip(rights, answers, strict=True))
        found = {}
        for change, right in _RIGHTS.items():
            if not allowed[right]:
                verb, resource = right
                found[change] = (
                    f"you have no right to {verb} {resource.full_name} in {run.namespace}: ask an administrator"
                )
        return found

    async def _may(self, namespace: str, right: Right) -> bool:
        """Ask the API server. Without an answer, the change itself will say what is wrong."""
        now = self.clock()
        known = self._known.get((namespace, right))
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        try:
            async with asyncio.timeout(_RIGHTS_PATIENCE):
                allowed = await self.connection.may(*right, namespace, attempts=1)
        except (ApiError, TimeoutError, msgspec.MsgspecError):
            return True if known is None else known[1]
        self._known[namespace, right] = (now, allowed)
        return allowed
