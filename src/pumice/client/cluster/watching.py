"""Follows a Job of a cluster: what happens to it and to its pods, and what they print."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from pumice.client.backend import RunRef, Update
from pumice.client.cluster.job_facts import JobFacts, counted, read_job, read_pod
from pumice.client.cluster.journal_entries import JobJournal, record_of, summary_of
from pumice.client.cluster.live_objects import LiveObjects, live, patiently
from pumice.client.cluster.pod_logs import JobLogs
from pumice.engines.kubernetes.api.resources import JOBS, PODS
from pumice.engines.kubernetes.cache.store import is_older
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.store.events import LogLine, LogOutput, RunEvent, WarningIssued
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import Entry
from pumice.store.logs.log_reader import LogSelection
from pumice.store.run_end import RunEnded
from pumice.store.run_errors import Denied, NoSuchRun

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend

_TICK: Final = 0.5
_Queue: TypeAlias = "asyncio.Queue[Sequence[RunEvent] | None]"


class Part(NamedTuple):
    """What is new, and all that is known with it."""

    entries: Sequence[Entry]
    events: Sequence[RunEvent]
    history: RunHistory


async def journal(backend: ClusterBackend, run: RunRef) -> AsyncGenerator[Part, None]:
    """Yield what is new, until the Job is over."""
    connection, namespace = backend.connection, run.namespace
    async with AsyncExitStack() as stack:
        jobs = LiveObjects(connection, JOBS, namespace, fields=f"metadata.name={run.name}", versions=[])
        pods = LiveObjects(connection, PODS, namespace, labels=f"{keys.JOB_NAME}={run.name}", versions=[])
        facts = await patiently(connection, lambda: backend.facts(run))
        watched = [jobs] if "pods" in facts.unreadable else [jobs, pods]
        for each in watched:
            await stack.enter_async_context(live(each))
        written = JobJournal(record_of(facts))
        while True:
            if entries := written.add(facts):
                yield Part(entries, written.events, written.history)
            if summary_of(written.history, facts.job, backend.name).is_over:
                return
            changes = [await each.changed(_TICK) for each in watched]
            if any(changes):
                facts = await patiently(connection, lambda: backend.facts(run))
                seen, jobs.versions = split_versions(facts, jobs.versions or ())
                earlier_pods, pods.versions = pods.versions or (), []
                facts = with_versions(facts, seen, earlier_pods)


def split_versions(
    facts: JobFacts, jobs: Sequence[msgspec.Raw]
) -> tuple[list[tuple[Manifest, Job]], list[msgspec.Raw]]:
    """Return the versions of the Job up to the one that was read, and those after it, which wait for the next reading.

    A watch may be ahead of what was read. Pods that were read with an older version do not say how a newer one ended.
    """
    seen: list[tuple[Manifest, Job]] = []
    later: list[msgspec.Raw] = []
    for raw in jobs:
        manifest, job = read_job(raw)
        if is_older(_version(facts.manifest), _version(manifest)):
            later.append(raw)
        elif job.uid == facts.job.uid:
            seen.append((manifest, job))
    return seen, later


def with_versions(facts: JobFacts, jobs: Sequence[tuple[Manifest, Job]], pods: Sequence[msgspec.Raw]) -> JobFacts:
    return replace(
        facts,
        earlier_jobs=[counted(job, facts.pods) for _, job in jobs],
        earlier_pods=[pod for raw in pods if (pod := read_pod(raw, facts.job.uid)) is not None],
    )


def _version(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("resourceVersion") or "")


async def watch(backend: ClusterBackend, run: RunRef, *, whole: bool = False) -> AsyncGenerator[Update, None]:
    """Yield what is known, then what happens and what is printed, and at last how the Job ended.

    `whole`: everything from the beginning, as events and lines.
    """
    # What was printed before is in `pumice logs`.
    selection = LogSelection(since=0 if whole else int(backend.now().timestamp() * 1e9))
    async with aclosing(journal(backend, run)) as parts:
        first = await anext(parts)
        history = first.history
        if not whole:
            if (status := summary_of(history, history.job, backend.name)).is_over:
                yield status
                return
            yield history
        queue: _Queue = asyncio.Queue(1)
        tasks = [
            asyncio.create_task(_put_events(parts, queue, first.events if whole else ())),
            asyncio.create_task(_put_lines(backend, run, selection, queue)),
        ]
        ended: RunEnded | None = None
        open_sources = len(tasks)
        try:
            while open_sources:
                events = await _next(queue, tasks)
                open_sources -= events is None
                for event in events or ():
                    if isinstance(event, RunEnded):
                        # The last lines come first.
                        ended = event
                    else:
                        yield event
            if ended is not None:
                yield ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _next(queue: _Queue, tasks: Sequence[asyncio.Task[None]]) -> Sequence[RunEvent] | None:
    """Return what comes next. Raises the error of a source that failed."""
    while True:
        for task in tasks:
            if task.done():
                task.result()
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK):
                return await queue.get()


async def _put_events(parts: AsyncGenerator[Part, None], queue: _Queue, before: Sequence[RunEvent]) -> None:
    if before:
        await queue.put(before)
    async for part in parts:
        await queue.put(part.events)
    await queue.put(None)


async def _put_lines(backend: ClusterBackend, run: RunRef, selection: LogSelection, queue: _Queue) -> None:
    facts = await patiently(backend.connection, lambda: backend.facts(run))
    try:
        logs = JobLogs(backend.connection, facts.job, selection)
        if "pods" in facts.unreadable:
            raise Denied("pods are not readable for you")
        async with aclosing(logs.follow(facts.pods)) as parts:
            async for batches in parts:
                lines = [
                    LogLine(execution.pod, execution.container, "stdout", line)
                    for _, execution, _, _, text in batches
                    for line in text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
                ]
                await queue.put([LogOutput(lines)])
    except Denied as error:
        await queue.put([WarningIssued(f"what its pods print is not shown: {error.problem.message}")])
    except NoSuchRun:
        """The journal says what became of the Job."""
    await queue.put(None)
