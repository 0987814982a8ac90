"""What is read of one Job only while somebody looks at it: its events, its logs, and why it waits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import ClusterPod, JobEventFact, read_event
from pumice.client.cluster.live.log_spool import LogSpool
from pumice.client.cluster.live_objects import LiveTable
from pumice.client.cluster.pod_logs import JobLogs
from pumice.engines.kubernetes.api.resources import CORE_EVENTS
from pumice.model.job import Job
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.logs.numbered_log import NumberedLog
from pumice.store.run_errors import ConnectionFailed, RunError, StoreError

if TYPE_CHECKING:
    from pumice.diagnosis.why import Why

_IDLE: Final = 60.0  # seconds after which nobody looks at it any more
_FRESH: Final = 10.0  # seconds for which the reason of a Job that has not changed is not asked for again
_LINES: Final = 200_000  # of all containers together that were printed before
_FEWEST, _MOST = 200, 20_000  # lines of one container
_PATIENCE: Final = 2.0  # seconds that a page waits for the lines that were printed before
_PAUSE: Final = 5.0


@dataclass(slots=True)
class LogFollower:
    """Reads what was printed, then what is printed until the Job is over. `live`: more may follow."""

    connection: Connection
    job: Job
    live: bool
    spool: LogSpool = field(default_factory=LogSpool)
    numbered: NumberedLog = field(init=False)
    failure: RunError | None = None
    newest: LogBatch | None = None
    _complete: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.numbered = NumberedLog(self.spool, self.live)

    async def log(self, pods: Sequence[ClusterPod]) -> NumberedLog:
        if self._task is None:
            self._task = asyncio.create_task(self._run(pods))
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._complete.wait()
        if self._task.done() and self.numbered.live:
            # All lines are known now, and are put into one order.
            self.numbered = NumberedLog(self.spool, live=False)
        await asyncio.to_thread(self.numbered.find)
        return self.numbered

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, pods: Sequence[ClusterPod]) -> None:
        containers = sum(max(1, len(each.containers)) for each in pods)
        most = min(max(_LINES // max(1, containers), _FEWEST), _MOST)
        logs = JobLogs(self.connection, self.job, LogSelection(), most=most)
        try:
            await self._retry(lambda: self._read(logs, pods))
            self.spool.release()
            self._complete.set()
            if self.live:
                await self._retry(lambda: self._follow(logs, pods))
        finally:
            self.spool.release()
            self._complete.set()

    async def _retry(self, read: Callable[[], Awaitable[None]]) -> None:
        """Read to the end, over lost connections."""
        while True:
            try:
                await read()
            except OSError as error:
                self.failure = StoreError(f"lines of logs cannot be kept: {error.strerror or error}")
                return
            except RunError as error:
                self.failure = error
                if not isinstance(error, ConnectionFailed):
                    return
                self._complete.set()
                await asyncio.sleep(_PAUSE)
            else:
                self.failure = None
                return

    async def _read(self, logs: JobLogs, pods: Sequence[ClusterPod]) -> None:
        numbers: Counter[Execution] = Counter()
        async with aclosing(logs.read(pods)) as parts:
            async for batches in parts:
                self.spool.add(batches)
                self.newest = batches[-1]
                numbers.update(each[1] for each in batches)
        # The server was asked for so many lines, and may have older ones.
        self.spool.truncated |= logs.most in numbers.values()

    async def _follow(self, logs: JobLogs, pods: Sequence[ClusterPod]) -> None:
        async with aclosing(logs.follow(pods)) as parts:
            async for batches in parts:
                self.failure = None
                self.spool.add_new(batches)
                self.newest = batches[-1]


@dataclass(slots=True)
class OpenJob:
    connection: Connection
    ref: RunRef
    clock: Callable[[], float] = time.monotonic
    version: int = 0  # of the events
    events: LiveTable[JobEventFact] = field(init=False)
    follower: LogFollower | None = None
    has_events: bool = False  # they were waited for
    _used: float = float("-inf")
    _begun: str = ""  # the phase of the Job when its logs were opened
    _why: tuple[float, int, Why] | None = None  # when it was asked for, and of which version of the Job

    def __post_init__(self) -> None:
        fields = f"involvedObject.uid={self.ref.uid}"
        self.events = LiveTable(
            self.connection, CORE_EVENTS, self.ref.namespace, self._decode, self._changed, fields=fields
        )

    @property
    def is_idle(self) -> bool:
        return self.clock() - self._used > _IDLE

    def use(self) -> None:
        self._used = self.clock()

    def facts(self) -> list[JobEventFact]:
        return sorted(self.events.items.values(), key=lambda each: each.time)

    async def log(self, job: Job, pods: Sequence[ClusterPod], *, live: bool) -> NumberedLog:
        if self.follower is None or (live and self.follower.is_done and self._is_resumed(job)):
            self.follower, self._begun = LogFollower(self.connection, job, live), job.status.state.phase
        return await self.follower.log(pods)

    def _is_resumed(self, job: Job) -> bool:
        """Whether a Job that was over goes on."""
        return self.follower is not None and not self.follower.live and job.status.state.phase != self._begun

    async def why(self, version: int, ask: Callable[[], Awaitable[Why]]) -> Why:
        now = self.clock()
        if self._why is None or self._why[1] != version or now - self._why[0] > _FRESH:
            self._why = (now, version, await ask())
        return self._why[2]

    async def close(self) -> None:
        await self.events.close()
        if self.follower is not None:
            await self.follower.close()
            self.follower = None

    def _decode(self, raw: msgspec.Raw) -> JobEventFact | None:
        found = read_event(raw)
        return found if found is not None and found.uid == self.ref.uid else None

    def _changed(self, _before: JobEventFact | None, _after: JobEventFact | None) -> None:
        self.version += 1
