"""Layers 4 and 5: a queue holds the gang, or only a part of it fits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pumice.diagnosis.cluster.admission_errors import read_refusal
from pumice.diagnosis.cluster.objects import NATIVE_SCHEDULED, OPEN, ROOT_QUEUE, Condition, PodGroup, Queue, quantities
from pumice.diagnosis.cluster.reading import Cause, ClusterReading, Unread, event_line, known, shortage, shortage_text
from pumice.diagnosis.cluster.scheduler_layer import room_cause
from pumice.diagnosis.cluster.scheduler_text import gang_sentence, read_gang_text, read_scheduler_text
from pumice.diagnosis.cluster.volume_layer import volume_cause
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.pod_waits import UNSCHEDULABLE
from pumice.diagnosis.why import EvidenceLine, Hint, Shortage, WhyCode
from pumice.model.quantity import Quantity
from pumice.model.text import some
from pumice.model.units import EPOCH, after, read_time
from pumice.model.vocabulary import VOLCANO_SCHEDULER

_GROUP: Final = "PodGroup"
_QUEUE: Final = "Queue"
_FIFO: Final = "fifo"
_SCHEDULED: Final = "Scheduled"
# A scheduler looks at a new PodGroup within some seconds.
_LOOKS_AFTER: Final = 10
_ZERO: Final = Quantity()


def queue_cause(reading: ClusterReading, now: dt.datetime) -> Cause | None:
    """Return why Volcano's scheduler has not let the gang into its queue."""
    group = _volcanos(reading)
    if not _is_queued(reading) or (reading.attempt if group is None else group.status.phase not in ("", "Pending")):
        return None
    name = _queue_name(reading, group)
    queue = next((each for each in known(reading.queues) if each.name == name), None)
    if missing_queue(reading):
        message = f"queue {name} does not exist, and the scheduler ignores its Jobs without a word"
        lines = [EvidenceLine(kind=_QUEUE, name=name, field="", text="not found")]
        lines += [_phase_line(group)] if group is not None else []
    elif queue is not None and queue.state != OPEN:
        message = f"queue {name} is {queue.state} and starts no Job"
        lines = [EvidenceLine(kind=_QUEUE, name=name, field="status.state", text=queue.state)]
    else:
        return None if group is None else _held(reading, group, name, queue, now)
    hints = tuple(_other_queues(reading, name))
    return Cause(code=WhyCode.QUEUE, message=message, since=reading.created, evidence=tuple(lines), hints=hints)


def missing_queue(reading: ClusterReading) -> str:
    """Return the queue of the Job if it does not exist. Volcano's controller does not even write a status then."""
    name = _queue_name(reading, _volcanos(reading))
    is_known = _is_queued(reading) and not isinstance(reading.queues, Unread)
    return name if is_known and all(each.name != name for each in known(reading.queues)) else ""


def _is_queued(reading: ClusterReading) -> bool:
    return reading.has_volcano and reading.job.spec.scheduler_name in ("", VOLCANO_SCHEDULER)


def _volcanos(reading: ClusterReading) -> PodGroup | None:
    return next((each for each in known(reading.pod_groups) if each.is_volcano), None)


def _queue_name(reading: ClusterReading, group: PodGroup | None) -> str:
    return (str(group.spec.get("queue") or "") if group is not None else "") or reading.job.spec.queue or "default"


def _other_queues(reading: ClusterReading, name: str) -> Iterator[Hint]:
    names = {queue.name for queue in known(reading.queues) if queue.state == OPEN}
    others = sorted(names - {name, ROOT_QUEUE})
    yield Hint(f"open queues: {some(others)}" if others else "the cluster has no other open queue")


def _held(reading: ClusterReading, group: PodGroup, name: str, queue: Queue | None, now: dt.datetime) -> Cause | None:
    """Return why the PodGroup is still Pending, in the words of its newest event, in numbers where there are some."""
    names = ((group.metadata.name, group.metadata.uid),)
    all_events = reading.events_of(_GROUP, names, UNSCHEDULABLE)
    # Of a gang without pods, the scheduler also says that none of them fits, in the same second.
    events = [each for each in all_events if read_gang_text(each.message) is None] or all_events
    said = in_words("", events[0].message) if events else ""
    line = event_line(events[0]) if events else _phase_line(group)
    refusal = read_refusal(said, reading.job.namespace)
    if refusal is not None:
        return replace(refusal, since=line.since, evidence=(*refusal.evidence, line))
    since = read_time(group.metadata.creation_timestamp)
    if not events and now < after(since or reading.created, _LOOKS_AFTER):
        return None
    cause = Cause(code=WhyCode.QUEUE, message="", since=line.since or since, evidence=(line,))
    short = _queue_shortages(group, queue)
    if queue is not None and short:
        texts = "; ".join(map(shortage_text, short))
        allocated = EvidenceLine(kind=_QUEUE, name=name, field="status.allocated", text=texts)
        message = f"queue {name} has no room: {texts}"
        hints = tuple(_other_queues(reading, name))
        if never := [each.resource for each in short if Quantity.parse(each.wanted) > Quantity.parse(each.capacity)]:
            never_fits = f"it never fits queue {name}: it wants more {some(never)} than the capability of the queue"
            hints = (Hint(never_fits), *hints)
        return replace(cause, message=message, short=short, evidence=(line, allocated), hints=hints)
    head = _head(reading, group, queue)
    if head is not None:
        ahead = f"{head.metadata.namespace}/{head.metadata.name}"
        behind = EvidenceLine(kind=_GROUP, name=ahead, field="status.phase", text=head.status.phase or "Pending")
        strategy = EvidenceLine(kind=_QUEUE, name=name, field="spec.dequeueStrategy", text=_FIFO)
        message = f"queue {name} starts its Jobs in order, and {ahead} is the first of them"
        return replace(cause, message=message, behind=ahead, evidence=(strategy, behind, line))
    return replace(cause, message=f"queue {name} holds it{f': {said}' if said else ' and does not say why'}")


def _queue_shortages(group: PodGroup, queue: Queue | None) -> tuple[Shortage, ...]:
    if queue is None:
        return ()
    capability, allocated = quantities(queue.spec.capability), quantities(queue.status.allocated)
    wanted = quantities(group.spec.get("minResources") or {})
    return tuple(
        shortage(name, amount, capability[name] - allocated.get(name, _ZERO), capability[name])
        for name, amount in wanted.items()
        if name in capability and allocated.get(name, _ZERO) + amount > capability[name]
    )


def _head(reading: ClusterReading, group: PodGroup, queue: Queue | None) -> PodGroup | None:
    """Return the PodGroup that a fifo queue tries first; None if it is the Job's own, or if that is unknown."""
    if queue is None or queue.spec.dequeue_strategy != _FIFO:
        return None
    priorities = reading.priorities
    waiting = sorted(
        known(reading.waiting_groups),
        key=lambda each: (
            -priorities.get(str(each.spec.get("priorityClassName") or ""), 0),
            read_time(each.metadata.creation_timestamp) or EPOCH,
        ),
    )
    return waiting[0] if waiting and waiting[0].metadata.uid != group.metadata.uid else None


def _phase_line(group: PodGroup) -> EvidenceLine:
    since = read_time(group.metadata.creation_timestamp)
    phase = group.status.phase or "Pending"
    return EvidenceLine(kind=_GROUP, name=group.metadata.name, field="status.phase", since=since, text=phase)


def gang_cause(reading: ClusterReading) -> Cause | None:
    """Return why the pods of the gang cannot start together."""
    for group in known(reading.pod_groups):
        conditions = group.status.conditions
        if group.is_volcano:  # the newest True condition counts
            true = [each for each in conditions if each.status == "True"]
            condition = max(true, key=lambda each: each.since or EPOCH, default=None)
            condition = condition if condition is not None and condition.type != _SCHEDULED else None
        else:
            native = [each for each in conditions if each.type in NATIVE_SCHEDULED]
            condition = next((each for each in native if each.status == "False"), None)
        if condition is not None:
            return _unfit(reading, group, condition)
    return None


def _unfit(reading: ClusterReading, group: PodGroup, condition: Condition) -> Cause:
    text = in_words("", condition.message)
    field = f"status.conditions[{condition.type}]"
    line = EvidenceLine(
        kind=_GROUP, name=group.metadata.name, field=field, since=condition.since, text=in_words(condition.reason, text)
    )
    gang = read_gang_text(text) if group.is_volcano else None
    tried = gang.pod if gang is not None else ""
    # The pod that the scheduler names, else the first of which it says what is missing.
    waiting = [pod for pod in reading.live_pods if pod.name == tried or read_scheduler_text(pod.said) is not None]
    pod = next((pod for pod in waiting if pod.name == tried), waiting[0] if waiting else None)
    cause = Cause(code=WhyCode.GANG, message=text, since=condition.since, evidence=(line,))
    hints: tuple[Hint, ...] = ()
    if gang is not None:
        cause = replace(cause, message=gang.part)
        hints = (Hint(f"with minAvailable: {gang.fitting} it would start now"),) if gang.fitting else ()
    if pod is None:
        return replace(cause, message=gang_sentence(text) if gang is not None else text)
    said = gang.said if gang is not None else ""
    scheduler_text = read_scheduler_text(said or pod.said)
    if scheduler_text is not None and scheduler_text.is_about_claims:
        reason = volume_cause(reading, pod, scheduler_text.missing_claim)
        return replace(reason, evidence=(*reason.evidence, line))
    peers = [each for each in reading.live_pods if each is not pod and not each.details.spec.get("nodeName")]
    reason = room_cause(reading, pod, said, peers)
    return replace(
        cause,
        message=f"{cause.message}: {reason.message}",
        evidence=(line, *reason.evidence),
        hints=(*reason.hints, *hints),
        short=reason.short,
        task=reason.task,
    )


def incomplete_gang(reading: ClusterReading) -> Cause | None:
    """Return that fewer pods exist than the gang needs: its scheduler holds them back and says nothing."""
    for group in known(reading.pod_groups):
        gang = (group.spec.get("schedulingPolicy") or {}).get("gang") or {}
        needed = gang.get("minCount") or group.spec.get("minMember") or 0
        names = (None, group.metadata.name)
        groups = ((pod, pod.details.spec.get("schedulingGroup") or {}) for pod in reading.attempt)
        members = [pod for pod, named in groups if named.get("podGroupName") in names]
        silent = all(pod.observed.waiting is None and not pod.details.spec.get("nodeName") for pod in members)
        if not group.is_volcano and members and silent and len(members) < needed:
            text = f"{len(members)} of {needed} pods exist"
            line = EvidenceLine(kind=_GROUP, name=group.metadata.name, field="spec", text=text)
            message = f"the gang needs {needed} pods, and {len(members)} exist: the scheduler waits for the others"
            return Cause(code=WhyCode.GANG, message=message, since=reading.created, evidence=(line,))
    return None
