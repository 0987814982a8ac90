"""What the containers of failed pods printed last: it says why they failed, and is in no status."""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.container_log import ContainerLog
from pumice.client.cluster.job_facts import ClusterPod, JobFacts
from pumice.diagnosis.failure_lines import LONGEST, LOOKED_AT, cause_line
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model.snapshot import ContainerEnd, PodPhase
from pumice.reconcile.phases import AT_REST
from pumice.store.logs.log_source import Execution

LOGS: Final = "logs"  # as a thing that a user may not read
_MOST: Final = 16  # pods; those that failed later have followed
_LIMIT: Final = 3.0  # seconds: a node may not answer
_MOST_BYTES: Final = 256 << 10
_NEVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)


async def with_last_lines(connection: Connection, facts: JobFacts) -> JobFacts:
    """Return the facts of a Job that is over with the last line of each container that failed."""
    if facts.job.status.state.phase not in AT_REST:
        return facts
    failed = [pod for pod in facts.pods if pod.observed.phase is PodPhase.FAILED and not pod.observed.is_deleting]
    failed.sort(key=lambda pod: pod.observed.ended_at or _NEVER)
    try:
        found = await asyncio.gather(*(_with_last_lines(connection, pod) for pod in failed[:_MOST]))
    except ApiError as error:
        return replace(facts, unreadable=[*facts.unreadable, LOGS]) if error.is_forbidden else facts
    by_uid = {pod.observed.uid: pod for pod in found}
    return replace(facts, pods=[by_uid.get(pod.observed.uid, pod) for pod in facts.pods])


async def _with_last_lines(connection: Connection, pod: ClusterPod) -> ClusterPod:
    ends = tuple([await _with_last_line(connection, pod, end) for end in pod.observed.ends])
    return replace(pod, observed=replace(pod.observed, ends=ends))


async def _with_last_line(connection: Connection, pod: ClusterPod, end: ContainerEnd) -> ContainerEnd:
    if end.last_line or not end.exit_code:
        return end
    seen = pod.observed
    execution = Execution(seen.short_name, 1, seen.retry + 1, end.container, 0, "")
    log = ContainerLog(connection, pod.namespace, pod.name, execution, tail=LOOKED_AT)
    printed: list[str] = []
    size = 0
    try:
        async with asyncio.timeout(_LIMIT), aclosing(log.read()) as parts:
            async for lines in parts:
                printed += [text.decode("utf-8", "replace").rstrip("\n") for _, _, text in lines if text.strip()]
                size += sum(len(text) for _, _, text in lines)
                if size > _MOST_BYTES:
                    break
    except TimeoutError:
        return end
    except ApiError as error:
        if error.is_forbidden:
            raise
        return end
    return replace(end, last_line=cause_line(printed)[:LONGEST])
