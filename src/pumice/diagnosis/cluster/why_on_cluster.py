"""Why a Job on a cluster waits, restarts, or has ended: asks the layers in order, and returns what the first one says.

Between a Job and its running pods stand the API server and its webhooks (1), the controller (2), the queue and the gang
(4, 5), the scheduler (6) with the autoscaler (7), volumes (8), the node (9) and readiness (10). A layer speaks only of
what reaches it, so the first that says something is the one to look at. What a task waits for by dependsOn comes last:
the pods of the task that it needs may have a cause of their own, and that is the answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from pumice.diagnosis.cluster.controller_layer import (
    dependency,
    no_controller,
    refusal,
    restart,
    state_line,
    suspension,
)
from pumice.diagnosis.cluster.gang_layer import gang_cause, incomplete_gang, queue_cause
from pumice.diagnosis.cluster.node_layer import container_cause, lost_node_cause, readiness_cause
from pumice.diagnosis.cluster.reading import Cause, ClusterReading, Unread, known
from pumice.diagnosis.cluster.scheduler_layer import scheduler_cause
from pumice.diagnosis.cluster.volume_layer import missing_claim_cause, mount_cause, unbound_claim_cause
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.pod_waits import CLAIM_MISSING, NODE_LOST, UNSCHEDULABLE, WAIT_CODES
from pumice.diagnosis.why import END_CODES, EvidenceLine, Hint, Why, WhyCode
from pumice.model.snapshot import PodPhase
from pumice.model.text import plural
from pumice.model.units import read_time
from pumice.model.vocabulary import INVALID_JOB, Phase

_MOST_EVIDENCE: Final = 5

# The codes of what a controller reports.
_REPORTED: Final = {
    **WAIT_CODES,
    CLAIM_MISSING: WhyCode.VOLUME,
    NODE_LOST: WhyCode.NODE,
    UNSCHEDULABLE: WhyCode.SCHEDULER,
}

_Layer = Callable[[ClusterReading, dt.datetime], Cause | None]


def _timeless(layer: Callable[[ClusterReading], Cause | None]) -> _Layer:
    return lambda reading, _now: layer(reading)


_LAYERS: Final[tuple[_Layer, ...]] = (
    no_controller,
    _timeless(refusal),
    lost_node_cause,
    _timeless(restart),
    _timeless(missing_claim_cause),
    queue_cause,
    _timeless(gang_cause),
    scheduler_cause,
    _timeless(incomplete_gang),
    _timeless(mount_cause),
    _timeless(container_cause),
    _timeless(unbound_claim_cause),
)

_POD_LAYERS: Final[tuple[_Layer, ...]] = (
    lost_node_cause,
    scheduler_cause,
    _timeless(mount_cause),
    _timeless(container_cause),
    _timeless(readiness_cause),
)


def why_on_cluster(reading: ClusterReading, now: dt.datetime) -> Why:
    """Return why the Job is in its state: a sentence, at most five lines of evidence, and what would help."""
    state = reading.job.status.state
    # Nothing is made of an invalid Job until it is corrected.
    is_invalid = state.reason == INVALID_JOB and state.phase != Phase.RUNNING
    cause = _end(reading) or suspension(reading) or (_progress(reading) if is_invalid else None)
    if cause is not None:
        return _why(reading, cause)
    cause = next(filter(None, (layer(reading, now) for layer in _LAYERS)), None)
    cause = _with_dependency(cause, dependency(reading), readiness_cause(reading)) or _progress(reading)
    running, total = reading.running, reading.job.total_replicas
    if cause.code is not WhyCode.RUNNING and state.phase == Phase.RUNNING:
        cause = replace(cause, message=f"{running} of {total} pods run; {cause.message}")
    return _why(reading, replace(cause, hints=(*cause.hints, *_unseen(reading))))


def why_pod_on_cluster(reading: ClusterReading, name: str, now: dt.datetime) -> Why | None:
    """Return why a pod, `worker-0`, does not run yet, or not again; None if no layer says anything of it."""
    pods = tuple(pod for pod in known(reading.pods) if pod.short_name == name)
    alone = replace(reading, pods=pods)
    cause = next(filter(None, (layer(alone, now) for layer in _POD_LAYERS)), None)
    if cause is None:
        return None
    why = _why(reading, replace(cause, hints=(*cause.hints, *_unseen(reading))))
    return replace(why, run=f"{reading.job.name}/{name}", outcome=None)


def _with_dependency(cause: Cause | None, waits: Cause | None, unready: Cause | None) -> Cause | None:
    """Add that a task waits for others, with the probe that fails; a cause of their pods is the answer itself."""
    if waits is None:
        return cause or unready
    if cause is not None:
        return replace(cause, evidence=(*cause.evidence[: _MOST_EVIDENCE - 1], *waits.evidence))
    if unready is not None and unready.task == waits.task:
        message = f"{waits.message}; {unready.message}"
        return replace(waits, message=message, evidence=(*waits.evidence, *unready.evidence))
    return waits


def _end(reading: ClusterReading) -> Cause | None:
    """Return how the Job has ended."""
    state = reading.job.status.state
    code = END_CODES.get(reading.outcome)
    if code is None:
        return None
    done = reading.count(PodPhase.SUCCEEDED)
    success = f"{plural(done, 'pod')} succeeded" if code is WhyCode.COMPLETED else ""
    verdict = reading.verdict.text if reading.verdict is not None else ""
    message = verdict or in_words("", state.message) or success or state.reason or state.phase
    line = state_line(reading)
    look = Hint("its last lines", reading.command(f"pumice logs {reading.job.name} --tail 30"))
    hints = (look,) if code is WhyCode.FAILED else ()
    # A verdict says more than the state.
    evidence = (line,) if reading.verdict is None else ()
    return Cause(code=code, message=message, since=line.since, evidence=evidence, hints=hints)


def _progress(reading: ClusterReading) -> Cause:
    """Return how far a Job has come of which no layer says anything."""
    job, state = reading.job, reading.job.status.state
    running, total = reading.running, job.total_replicas
    since = read_time(state.last_transition_time) or reading.created
    is_running = state.phase == Phase.RUNNING
    if state.message and (not is_running or isinstance(reading.pods, Unread)):
        # What the controller knows, and nothing else shows, or what the user may not read.
        code = _REPORTED.get(state.reason, WhyCode.RUNNING if is_running else WhyCode.STARTING)
        message = in_words("", state.message)
        again = Hint("correct it, and submit it again after", reading.command(f"pumice rm {job.name} --force"))
        hints = (again,) if state.reason == INVALID_JOB else ()
        return Cause(code=code, message=message, since=since, evidence=(state_line(reading),), hints=hints)
    if is_running:
        return Cause(code=WhyCode.RUNNING, message=f"{running} of {total} pods run", since=since)
    made = len(reading.attempt)
    done = f"{running} of {total} pods run" if running or not made else f"{made} of {total} pods are being started"
    phase = state.phase or "is empty"
    line = EvidenceLine(kind=job.kind, name=job.name, field="status.state.phase", since=since, text=phase)
    return Cause(code=WhyCode.STARTING, message=done, since=since, evidence=(line,))


def _unseen(reading: ClusterReading) -> Iterator[Hint]:
    """Say what could not be read, once for each reason: something there may be the true cause."""
    reasons: dict[str, list[str]] = {}
    for name, unread in reading.unread.items():
        reasons.setdefault(unread.reason, []).append(name)
    for reason, names in reasons.items():
        yield Hint(f"not seen: {', '.join(names)} ({reason})")


def _why(reading: ClusterReading, cause: Cause) -> Why:
    return Why(
        run=reading.job.name,
        code=cause.code,
        outcome=reading.outcome,
        since=cause.since,
        behind=cause.behind,
        short=cause.short,
        hints=cause.hints,
        message=cause.message,
        evidence=cause.evidence[:_MOST_EVIDENCE],
        verdict=reading.verdict,
    )
