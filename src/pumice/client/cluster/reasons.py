"""Why a Job on a cluster, or one of its pods, waits, runs or has ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from pumice.client.cluster.cluster_reading import read_cluster
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import JobFacts
from pumice.client.values import Status
from pumice.diagnosis.cluster.why_on_cluster import why_on_cluster, why_pod_on_cluster
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.pod_ends import how_it_ended, in_words
from pumice.diagnosis.pod_waits import dependency, last_lines, why_pod
from pumice.diagnosis.why import END_CODES, EvidenceLine, Hint, Why, WhyCode, success_text
from pumice.model.snapshot import PodPhase
from pumice.model.units import read_time
from pumice.store.pod_names import planned_pod

_MOST_FAILURES: Final = 4  # pods of a Job that has failed, as evidence


async def explain(connection: Connection, facts: JobFacts, status: Status, now: dt.datetime) -> Why:
    """Return why a Job is in its state, from all that this user may read."""
    if status.finished is None:
        return why_on_cluster(await read_cluster(connection, facts, status), now)
    message = status.message
    if status.verdict is not None and status.verdict.text:
        message = status.verdict.text
    elif status.outcome is Outcome.SUCCEEDED:
        message = success_text(status.pods.succeeded, status.ran)
    hints = [Hint(f"not seen: {what} (you have no right to list them)") for what in facts.unreadable]
    if facts.pods and status.outcome is not Outcome.SUCCEEDED:
        hints.insert(0, last_lines(status.run, facts.where))
    return Why(
        run=status.run,
        code=END_CODES[status.outcome],
        since=status.finished,
        hints=tuple(hints),
        message=message,
        evidence=tuple(_evidence(facts)),
        verdict=status.verdict,
        outcome=status.outcome,
    )


def _evidence(facts: JobFacts) -> Iterator[EvidenceLine]:
    """Yield what the Job says, and how its pods failed, the first failure first."""
    job, state = facts.job, facts.job.status.state
    text = in_words(state.reason, state.message) or state.phase
    since = read_time(state.last_transition_time)
    yield EvidenceLine(kind=job.kind, name=job.name, field="status.state", since=since, text=text)
    failed = [pod for pod in facts.pods if pod.observed.phase is PodPhase.FAILED]
    failed.sort(key=lambda pod: (pod.finished is None, pod.finished or pod.observed.created_at))
    for pod in failed[:_MOST_FAILURES]:
        seen, end = pod.observed, pod.observed.first_failure
        texts, field = [in_words(seen.reason, seen.message)], "status.phase"
        if end is not None:
            texts.append(how_it_ended(end))
            field = f"status.containerStatuses[{end.container}].state.terminated"
        text = "; ".join(filter(None, texts)) or str(seen.phase)
        yield EvidenceLine(kind="Pod", name=pod.name, field=field, since=pod.finished, text=text)


async def explain_pod(connection: Connection, facts: JobFacts, status: Status, name: str, now: dt.datetime) -> Why:
    """Return why a pod, `worker-0`, waits, runs or has ended. Raises NoSuchPod."""
    job = facts.job
    ref = f"{job.name}/{name}"
    found = [each.observed for each in facts.pods if each.observed.short_name == name]
    if found:
        newest = max(found, key=lambda pod: pod.created_at)
        why = None
        if not newest.is_finished:
            why = why_pod_on_cluster(await read_cluster(connection, facts, status), name, now)
        return why or why_pod(ref, newest, facts.where)
    slot = planned_pod(ref, job, name)
    if waits := dependency(slot.task):
        return Why(run=ref, code=WhyCode.DEPENDENCY, message=waits)
    return Why(run=ref, code=WhyCode.STARTING, message="it does not exist")
