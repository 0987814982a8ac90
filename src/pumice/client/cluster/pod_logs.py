"""The logs of a Job on a cluster: all pods, containers and restarts, merged by the times of the server."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from pumice.client.cluster.archive.kept_logs import check_attempt, kept_pod
from pumice.client.cluster.connection import Connection, gone
from pumice.client.cluster.container_log import ContainerLog, Line
from pumice.client.cluster.job_facts import ClusterPod, JobFacts, in_order, read_job, read_pod
from pumice.client.cluster.live_objects import LiveObjects, Patience, live
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import JOBS, PODS
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.reconcile.phases import AT_REST
from pumice.store.logs.log_reader import LogSelection
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.logs.log_tails import LogTail
from pumice.store.pod_names import RunNames

_AT_ONCE: Final = 512  # logs that are read at the same time
_GATHERED: Final = 0.05  # seconds in which lines of several pods are put in order
_WAITING: Final = 64  # parts of logs that are read, and not shown yet
_TICK: Final = 1.0
_NO_LOG: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST})
_OF_NODE: Final = frozenset({HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
_LAST: Final = 5.0  # seconds for the last lines of a Job that is over


@dataclass(slots=True)
class JobLogs:
    connection: Connection
    job: Job
    selection: LogSelection
    prefix: Callable[[Execution], bytes] = lambda _execution: b""  # of each line
    most: int | None = None  # lines of each container, the newest ones
    tails: Sequence[LogTail] = ()  # of pods that are gone
    is_patient: bool = False  # retry a lost connection
    _unreadable: set[str] = field(default_factory=set)  # pods
    _logs: dict[tuple[str, str, int], ContainerLog] = field(default_factory=dict)  # by pod uid, container, restart
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _names: dict[str, dict[str, int]] = field(default_factory=dict)  # the pods of each short name, in their order

    async def read(self, pods: Sequence[ClusterPod]) -> AsyncGenerator[Sequence[LogBatch], None]:
        """Yield what has been printed so far."""
        merged = _merged([*self._sources(pods)])
        async with aclosing(merged):
            if self.selection.tail is None:
                async for lines in merged:
                    if batches := self._batches(lines):
                        yield batches
                return
            last: deque[LogBatch] = deque(maxlen=self.selection.tail)
            async for lines in merged:
                last.extend(self._batches(lines))
            if last:
                yield list(last)

    async def follow(self, pods: Sequence[ClusterPod]) -> AsyncGenerator[Sequence[LogBatch], None]:
        """Yield old and new lines until the Job has ended. Pods that do not exist yet are waited for.

        Raises NoSuchRun if the Job is deleted meanwhile.
        """
        self.is_patient = True
        async with aclosing(self.read(pods)) as past:
            async for batches in past:
                yield batches
        namespace, labels = self.job.namespace, f"{keys.JOB_NAME}={self.job.name}"
        async with AsyncExitStack() as stack:
            one = LiveObjects(self.connection, JOBS, namespace, fields=f"metadata.name={self.job.name}")
            many = LiveObjects(self.connection, PODS, namespace, labels=labels)
            follower = Follower(self, await stack.enter_async_context(live(one)))
            follower.pods = await stack.enter_async_context(live(many))
            async with aclosing(follower.lines()) as lines_of:
                async for lines in lines_of:
                    if batches := self._batches(lines):
                        yield batches

    def _sources(self, pods: Sequence[ClusterPod]) -> Iterator[AsyncGenerator[list[Line], None]]:
        """Yield what is kept of pods that are gone, then the log of each execution that the cluster still has."""
        uids = {each.observed.uid for each in pods}
        for tail in self.tails if not self.selection.previous else ():
            if tail.pod.uid not in uids:
                pod = ClusterPod(kept_pod(tail), self.job.namespace)
                if (log := self.log(pod, tail.container, tail.pod.restarts)) is not None:
                    yield _lines(log.lines_of(tail.text))
        for pod in pods:
            for container in pod.containers:
                newest = container.restarts
                if newest and (log := self.log(pod, container.name, newest - 1)) is not None:
                    yield self._parts(log, previous=True)
                is_wanted = container.started and not self.selection.previous
                if is_wanted and (log := self.log(pod, container.name, newest)) is not None:
                    yield self._parts(log, previous=False)

    def log(self, pod: ClusterPod, container: str, restart: int) -> ContainerLog | None:
        """Return the log of an execution, always the same one; None if it is not selected."""
        seen = pod.observed
        names = self._names.setdefault(seen.short_name, {})
        number = names.setdefault(seen.uid, len(names) + 1)
        key = (seen.uid, container, restart)
        if key not in self._logs:
            execution = Execution(seen.short_name, number, seen.retry + 1, container, restart, "")
            if not self.selection.has(execution):
                return None
            limit = self.selection.tail if self.selection.grep is None else None
            limit = self.most if limit is None else limit
            self._logs[key] = ContainerLog(
                self.connection, pod.namespace, pod.name, execution, self.selection.since, limit
            )
        return self._logs[key]

    async def _parts(self, log: ContainerLog, *, previous: bool) -> AsyncGenerator[list[Line], None]:
        patience = Patience(self.connection)
        while True:
            try:
                async with aclosing(log.read(previous=previous)) as parts:
                    async for lines in parts:
                        yield lines
            except ApiError as error:
                if is_gone(error):
                    return
                if is_of_node(error):
                    self.unreadable(log.execution, error)
                    return
                if not self.is_patient:
                    raise self.connection.explained(error) from error
                await patience.after(error)
            else:
                patience.succeeded()
                return

    def unreadable(self, execution: Execution, error: ApiError) -> None:
        """Tell once that a node does not hand out the log of a pod."""
        if execution.pod not in self._unreadable:
            self._unreadable.add(execution.pod)
            self.connection.tell(f"{execution.pod}: its node does not hand out the log: {error}")

    def _batches(self, lines: Iterable[Line]) -> list[LogBatch]:
        search = None if self.selection.grep is None else self.selection.grep.search
        return [
            (next(self._numbers), execution, time, 0, self.prefix(execution) + text)
            for time, execution, text in lines
            if search is None or search(text[:-1].decode("utf-8", "replace"))
        ]


def check_selection(facts: JobFacts, selection: LogSelection, *, follow: bool) -> None:
    """Refuse pods, tasks and containers that the Job does not have. Raises NoSuchPod; Denied without the right."""
    job = facts.job
    facts.check_pods()
    pods = list(dict.fromkeys([*(s.short_name for s in slots(job)), *(p.observed.short_name for p in facts.pods)]))
    containers = (each.name for pod in facts.pods for each in pod.containers)
    RunNames(job.name, job, pods, containers).check(selection, follow=follow)
    if selection.attempt and not follow:
        check_attempt(job, selection.attempt, [each.observed for each in facts.pods], facts.kept)


def is_of_node(error: ApiError) -> bool:
    """Whether the API server has answered for a node that does not: all other logs can be read."""
    return error.status in _OF_NODE


def is_gone(error: ApiError) -> bool:
    """Whether there is no log: the pod is gone, or the container has not started, or was removed."""
    return error.status in _NO_LOG


async def _lines(found: list[Line]) -> AsyncGenerator[list[Line], None]:
    if found:
        yield found


async def _merged(sources: Sequence[AsyncGenerator[list[Line], None]]) -> AsyncGenerator[list[Line], None]:
    """Yield the lines of all sources by time. Up to the earliest of their newest lines, the order is certain."""
    waiting, heads = deque(sources), dict[AsyncGenerator[list[Line], None], list[Line]]()
    try:
        while waiting or heads:
            # Of very many logs, those that end while they are read make room for others.
            empty = [source for source, lines in heads.items() if not lines]
            empty += [waiting.popleft() for _ in range(min(len(waiting), max(0, _AT_ONCE - len(heads))))]
            parts = await asyncio.gather(*map(_next, empty))
            for source, lines in zip(empty, parts, strict=True):
                if lines is None:
                    heads.pop(source, None)
                else:
                    heads[source] = lines
            if not heads:
                continue
            certain = min(lines[-1][0] for lines in heads.values())
            ready: list[Line] = []
            for source, lines in heads.items():
                count = next((at for at, line in enumerate(lines) if line[0] > certain), len(lines))
                ready += lines[:count]
                heads[source] = lines[count:]
            ready.sort(key=_time_of)
            yield ready
    finally:
        for source in sources:
            await source.aclose()


async def _next(source: AsyncGenerator[list[Line], None]) -> list[Line] | None:
    return await anext(source, None)


def _time_of(line: Line) -> int:
    return line[0]


@dataclass(slots=True)
class Follower:
    """Follows the logs of the pods of a Job, each in a task of its own."""

    logs: JobLogs
    jobs: LiveObjects
    pods: LiveObjects = field(init=False)
    _tasks: dict[tuple[str, str, int], asyncio.Task[None]] = field(default_factory=dict)
    _queue: asyncio.Queue[list[Line]] = field(default_factory=lambda: asyncio.Queue(_WAITING))

    async def lines(self) -> AsyncGenerator[list[Line], None]:
        watcher = asyncio.create_task(self._watch())
        try:
            while True:
                getter = asyncio.ensure_future(self._queue.get())
                try:
                    await asyncio.wait({getter, watcher}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    getter.cancel()
                    raise
                if getter.done():
                    # Other pods may have printed earlier lines.
                    await asyncio.sleep(_GATHERED)
                    lines = getter.result()
                    while not self._queue.empty():
                        lines = lines + self._queue.get_nowait()
                    yield sorted(lines, key=_time_of)
                    continue
                getter.cancel()
                await watcher
                return
        finally:
            for task in (watcher, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(watcher, *self._tasks.values(), return_exceptions=True)

    async def _watch(self) -> None:
        """Follow each container that starts, until the Job is over and every log has been read to its end."""
        await self.jobs.changed(_TICK)
        while True:
            await self.pods.changed(_TICK)
            job = self.logs.job
            raw_job = self.jobs.items.get(job.uid)
            is_over = self.jobs.is_listed and (raw_job is None or read_job(raw_job)[1].status.state.phase in AT_REST)
            pods = (read_pod(raw, job.uid) for raw in list(self.pods.items.values()))
            for pod in in_order(job, [pod for pod in pods if pod is not None]):
                for container in pod.containers:
                    key = (pod.observed.uid, container.name, container.restarts)
                    if not container.started or key in self._tasks:
                        continue
                    if (log := self.logs.log(pod, container.name, container.restarts)) is not None:
                        self._tasks[key] = asyncio.create_task(self._follow(pod.observed.uid, log))
            for task in [each for each in self._tasks.values() if each.done()]:
                task.result()
            if is_over:
                # Pods that outlive their Job print nothing for it.
                if open_tasks := [each for each in self._tasks.values() if not each.done()]:
                    await asyncio.wait(open_tasks, timeout=_LAST)
                if job.uid not in self.jobs.items:
                    raise gone(job.name, is_replaced=bool(self.jobs.items))
                return

    async def _follow(self, uid: str, log: ContainerLog) -> None:
        patience = Patience(self.logs.connection)
        while True:
            restart = self._newest_restart(uid, log)
            is_open = restart is not None and restart == log.execution.restart
            try:
                async with aclosing(log.read(follow=is_open, previous=not is_open and restart is not None)) as parts:
                    async for lines in parts:
                        await self._queue.put(lines)
                patience.succeeded()
                if not is_open:
                    return
                # The stream has ended, with the container or with the connection: soon the watch shows which.
                for _ in range(10):
                    if self._newest_restart(uid, log) != log.execution.restart:
                        break
                    await asyncio.sleep(_TICK / 10)
            except ApiError as error:
                if is_gone(error) and not is_open:
                    return
                if is_of_node(error):
                    self.logs.unreadable(log.execution, error)
                if is_gone(error) or is_of_node(error):
                    await asyncio.sleep(_TICK)
                else:
                    await patience.after(error)

    def _newest_restart(self, uid: str, log: ContainerLog) -> int | None:
        """Return the number of the execution that runs; None if the container has ended for now, or is gone."""
        raw = self.pods.items.get(uid)
        pod = None if raw is None else read_pod(raw, self.logs.job.uid)
        states = {} if pod is None else {each.name: each for each in pod.containers}
        state = states.get(log.execution.container)
        if state is None or not (state.is_running or state.restarts > log.execution.restart):
            return None
        return state.restarts
