"""Layers 6 and 7: no node takes a pod, and what the autoscaler does about it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pumice.diagnosis.cluster.node_fit import NodeFit, fits, give_nodes
from pumice.diagnosis.cluster.reading import (
    Cause,
    ClusterReading,
    PodReading,
    Unread,
    amount,
    event_line,
    known,
    pod_line,
    shortage_text,
)
from pumice.diagnosis.cluster.scheduler_text import read_scheduler_text
from pumice.diagnosis.cluster.volume_layer import volume_cause
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.pod_waits import GATED, UNSCHEDULABLE
from pumice.diagnosis.why import EvidenceLine, Hint, WhyCode
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.model.text import plural, some

_SCHEDULED: Final = "PodScheduled"
_ADDS_NODES: Final = ("TriggeredScaleUp", "Nominated")
_ADDS_NONE: Final = "NotTriggerScaleUp"
# A node that is added takes minutes. After this it is not the autoscaler that a pod waits for.
_ADDING: Final = dt.timedelta(minutes=15)
_SHOWN_NODES: Final = 3


def scheduler_cause(reading: ClusterReading, now: dt.datetime) -> Cause | None:
    """Return why the first pod has no node, with what the autoscaler says of it."""
    waiting = [pod for pod in reading.live_pods if pod.observed.waiting is not None]
    gated = next((pod for pod in waiting if _reason(pod) == GATED), None)
    unscheduled = [pod for pod in waiting if _reason(pod) == UNSCHEDULABLE]
    if not unscheduled:
        return None if gated is None else _gate_cause(gated)
    # Of a gang only the pods that were tried say more than that the gang does not fit.
    pod = next((each for each in unscheduled if read_scheduler_text(each.said) is not None), unscheduled[0])
    text = read_scheduler_text(pod.said)
    if text is not None and text.is_about_claims:
        return volume_cause(reading, pod, text.missing_claim)
    return _with_autoscaler(reading, pod, room_cause(reading, pod), now)


def room_cause(reading: ClusterReading, pod: PodReading, said: str = "", peers: Sequence[PodReading] = ()) -> Cause:
    """Return why no node takes a pod; `said` is the scheduler's text, where the pod does not have it.

    `peers` are pods of its gang that a scheduler places before it.
    """
    condition = pod.details.condition(_SCHEDULED)
    since = condition.since if condition is not None else None
    text = said or pod.said
    line = pod_line(pod, f"status.conditions[{_SCHEDULED}]", text, since)
    sentence = f"{pod.short_name} waits: {in_words(UNSCHEDULABLE, text)}"
    cause = Cause(code=WhyCode.SCHEDULER, message=sentence, since=since, evidence=(line,), task=pod.observed.task)
    usage = None if isinstance(reading.usage, Unread) else give_nodes(peers, known(reading.nodes), reading.usage)
    ranked = fits(pod.details.spec, known(reading.nodes), usage)
    if not ranked:
        return cause
    if all(fit.is_excluded for fit in ranked):
        return _excluded(cause, pod, ranked, reading)
    return _short(cause, pod.short_name, ranked)


def _excluded(cause: Cause, pod: PodReading, ranked: Sequence[NodeFit], reading: ClusterReading) -> Cause:
    """Say why every node is excluded, whatever it has free."""
    count, spec = len(ranked), pod.details.spec
    # Any client may annotate a pod with a task that the Job does not have.
    names, name = reading.job.task_names, pod.observed.task
    task = f"spec.tasks[{names.index(name)}].template.spec" if name in names else "spec"
    nodes = "the only node" if count == 1 else f"all {count} nodes"
    if all(fit.selector for fit in ranked):
        wanted = some(list(dict.fromkeys(each for fit in ranked for each in fit.selector)))
        message = f"no node has what {pod.short_name} selects: {wanted}"
    elif all(fit.taints for fit in ranked):
        taints = some(list(dict.fromkeys(str(taint) for fit in ranked for taint in fit.taints)))
        message = f"{nodes} {'has' if count == 1 else 'have'} taints that {pod.short_name} does not tolerate: {taints}"
    elif all(fit.cordoned for fit in ranked):
        message = f"{nodes} {'is' if count == 1 else 'are'} cordoned"
    else:
        parts = (
            (sum(1 for fit in ranked if fit.taints), "by taints"),
            (sum(1 for fit in ranked if fit.selector), "by what it selects"),
            (sum(1 for fit in ranked if fit.cordoned), "because they are cordoned"),
        )
        numbers = ", ".join(f"{number} {why}" for number, why in parts if number)
        message = f"{nodes} {'is' if count == 1 else 'are'} closed to {pod.short_name}: {numbers}"
    hints = (*_toleration_hints(ranked, task), *_label_hints(spec, reading, task))
    return replace(cause, message=message, evidence=(*cause.evidence, *_node_lines(ranked)), hints=hints)


def _toleration_hints(ranked: Sequence[NodeFit], task: str) -> Iterator[Hint]:
    """Name the tolerations that would open nodes: those of the nodes that only taints exclude."""
    nodes: dict[str, int] = {}
    for fit in ranked:
        if fit.taints and not fit.selector and not fit.cordoned:
            taints = " and ".join(str(taint) for taint in fit.taints)
            nodes[taints] = nodes.get(taints, 0) + 1
    for taints, count in list(nodes.items())[:_SHOWN_NODES]:
        opened = plural(count, "node")
        yield Hint(f"a toleration of {taints} in {task}.tolerations opens {opened}")


def _label_hints(spec: Manifest, reading: ClusterReading, task: str) -> Iterator[Hint]:
    """Say which values nodes have of the labels that the pod selects."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        labels = [node.metadata.labels[key] for node in known(reading.nodes) if key in node.metadata.labels]
        if value not in labels:
            values = some([f"{key}={each}" for each in sorted(set(labels))]) or f"no label {key}"
            yield Hint(f"nodes have {values}; {task}.nodeSelector wants {key}={value}")


def _short(cause: Cause, name: str, ranked: Sequence[NodeFit]) -> Cause:
    """Say how much the best node lacks; nothing, if other rules than room exclude it."""
    candidates = [fit for fit in ranked if not fit.is_excluded]
    best, count = candidates[0], len(candidates)
    if not best.short:
        return replace(cause, evidence=(*cause.evidence, *_node_lines(ranked)))
    short = best.too_small or best.short
    which = f"node {best.node}" if count == 1 else f"{best.node}, the best of {count} nodes"
    hints: tuple[Hint, ...] = ()  # which request would fit the best node
    if best.too_small:
        wanted = [f"{each.resource}: {amount(each.resource, each.wanted)} wanted" for each in short]
        sizes = [amount(each.resource, each.capacity) for each in short]
        texts = "; ".join(map(", ".join, zip(wanted, sizes, strict=True)))
        message = f"{name} fits no node, even an empty one: {texts} on {which}"
        capacities = [f"{each.resource}: {size}" for each, size in zip(short, sizes, strict=True)]
        text = "; ".join(capacities)
        hints = (Hint(f"at most this fits {best.node} when it is empty: {', '.join(capacities)}"),)
    else:
        text = "; ".join(map(shortage_text, short))
        message = f"no node has room for {name}: {text} on {which}"
        if all(not Quantity.parse(each.free).is_zero for each in short):
            free = ", ".join(f"{each.resource}: {amount(each.resource, each.free)}" for each in short)
            hints = (Hint(f"at most this fits {best.node} now: {free}"),)
    line = EvidenceLine(kind="Node", name=best.node, field="status.allocatable", text=text)
    evidence = (*cause.evidence, line, *_node_lines(ranked))
    return replace(cause, message=message, short=short, evidence=evidence, hints=hints)


def _node_lines(ranked: Sequence[NodeFit]) -> Iterator[EvidenceLine]:
    for fit in [fit for fit in ranked if fit.is_excluded][:_SHOWN_NODES]:
        field = "spec.taints" if fit.taints else "metadata.labels" if fit.selector else "spec.unschedulable"
        yield EvidenceLine(kind="Node", name=fit.node, field=field, text=fit.exclusion)


def _gate_cause(pod: PodReading) -> Cause:
    """Its gates are removed by whoever set them: Kueue, or Volcano for a queue."""
    gates = [str(gate.get("name")) for gate in pod.details.spec.get("schedulingGates") or ()]
    text = some(gates) or "unknown gates"
    condition = pod.details.condition(_SCHEDULED)
    since = condition.since if condition is not None else None
    return Cause(
        code=WhyCode.QUEUE,
        message=f"{pod.short_name} waits for its scheduling gates to open: {text}",
        since=since,
        evidence=(pod_line(pod, "spec.schedulingGates", text, since),),
        task=pod.observed.task,
    )


def _with_autoscaler(reading: ClusterReading, pod: PodReading, cause: Cause, now: dt.datetime) -> Cause:
    events = reading.events_of_pods(reading.live_pods, *_ADDS_NODES, _ADDS_NONE)
    if not events:
        return cause
    newest = events[0]
    evidence = (event_line(newest), *cause.evidence)
    if newest.reason == _ADDS_NONE:
        message = f"{cause.message}; the autoscaler cannot help: {in_words('', newest.message)}"
        return replace(cause, message=message, evidence=evidence)
    seen = newest.last_seen
    if seen is None or now - seen > _ADDING:
        return replace(cause, evidence=evidence)
    message = f"nodes are being added for {pod.short_name}; until then: {cause.message}"
    return replace(cause, code=WhyCode.AUTOSCALER, message=message, since=newest.begin, evidence=evidence)


def _reason(pod: PodReading) -> str:
    return pod.observed.waiting.reason if pod.observed.waiting is not None else ""
