"""Layers 9 and 10: a node cannot start a pod, a container crashes, a node does not answer, a pod is not ready."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Final

from pumice.diagnosis.cluster.objects import ContainerStatus
from pumice.diagnosis.cluster.reading import Cause, ClusterReading, PodReading, event_line, known, pod_line
from pumice.diagnosis.pod_ends import (
    CODE_CONTAINER,
    NOT_UNPACKED,
    READ_ONLY_CODE,
    how_it_ended,
    in_words,
    lacks_tools,
    one_line,
)
from pumice.diagnosis.pod_waits import GATED, UNSCHEDULABLE, WAIT_CODES, lost_pods, lost_sentence, wait_sentence
from pumice.diagnosis.why import EvidenceLine, Hint, WhyCode
from pumice.model import naming
from pumice.model.snapshot import BACK_OFF, IMAGE_REASONS, ContainerEnd, PodPhase, Waiting

_SANDBOX: Final = ("FailedCreatePodSandBox", "NetworkNotReady")
_PULL: Final = ("Failed", "InspectFailed")
_UNHEALTHY: Final = "Unhealthy"
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_KEY_MISSING: Final = re.compile(r"couldn't find key (\S+) in (Secret|ConfigMap) ([^/\s]+)/(\S+)")
_OBJECT_MISSING: Final = re.compile(r'(secret|configmap) "([^"]+)" not found')
_KINDS: Final = {"secret": "Secret", "configmap": "ConfigMap"}
_IMAGE_HINTS: Final = {
    "InvalidImageName": "write the image as registry/name:tag",
    "ErrImageNeverPull": "its node does not have the image, and imagePullPolicy Never forbids to pull it",
}
_IMAGE_HINT: Final = "check its name and tag; a private registry needs imagePullSecrets"


def lost_node_cause(reading: ClusterReading, now: dt.datetime) -> Cause | None:
    """Return the nodes that do not answer, with what the cluster knows of them."""
    lost = lost_pods((pod.observed for pod in known(reading.pods)), now)
    if not lost:
        return None
    names = {pod.node for pod in lost}
    nodes = {node.name: node.ready for node in known(reading.nodes) if node.name in names}
    lines = [
        EvidenceLine(
            kind="Node",
            name=name,
            field="status.conditions[Ready]",
            since=ready.since,
            text=in_words(ready.reason, ready.message) or ready.status,
        )
        for name, ready in nodes.items()
        if ready is not None
    ]
    gone = [EvidenceLine(kind="Node", name=name, field="", text="not found") for name in sorted(names - set(nodes))]
    pods = [
        EvidenceLine(kind="Pod", name=pod.name, field="spec.nodeName", since=pod.deleted_at, text=pod.node)
        for pod in lost
    ]
    since = min((line.since for line in lines if line.since is not None), default=None)
    evidence = (*lines, *(gone if known(reading.nodes) else ()), *pods)
    return Cause(code=WhyCode.NODE, message=lost_sentence(lost), since=since, evidence=evidence, task=lost[0].task)


def container_cause(reading: ClusterReading) -> Cause | None:
    """Return why the containers of the first pod that has a node do not run."""
    for pod in reading.live_pods:
        waiting = pod.observed.waiting
        if waiting is not None and waiting.reason not in (GATED, UNSCHEDULABLE):
            return _waiting_cause(reading, pod, waiting)
    for pod in reading.live_pods:
        if pod.observed.phase is PodPhase.PENDING:
            for event in reading.events_of_pods([pod], *_SANDBOX)[:1]:
                text = in_words(event.reason, event.message)
                return Cause(
                    code=WhyCode.NODE,
                    message=f"{pod.short_name} waits: {text}",
                    since=event.begin,
                    evidence=(event_line(event), *_node(pod)),
                    task=pod.observed.task,
                )
    return None


def _waiting_cause(reading: ClusterReading, pod: PodReading, waiting: Waiting) -> Cause:
    observed, reason, message = pod.observed, waiting.reason, waiting.message
    status = next(
        (each for each in pod.details.containers if each.state.waiting and each.state.waiting.reason == reason), None
    )
    container = status.name if status is not None else observed.task
    text = in_words(reason, message)
    line = pod_line(pod, f"status.containerStatuses[{container}].state.waiting", text, observed.changed_at)
    lines, hints = [line], []
    if reason in IMAGE_REASONS:
        image = f"; image {status.image}" if status is not None and status.image not in text else ""
        lines = [pod_line(pod, line.field, text + image, observed.created_at)]
        lines += [event_line(event) for event in reading.events_of_pods([pod], *_PULL)[:2]]
        hints = [Hint(_IMAGE_HINTS.get(reason, _IMAGE_HINT))]
    elif reason == _CONFIG_ERROR:
        for missing, hint in _missing(reading, message):
            lines, hints = [*lines, missing], [hint]
    elif reason == BACK_OFF:
        lines = [*_last_end(pod, status), line]
        target = f"{reading.job.name}/{pod.short_name}"
        hints = [Hint("its last lines", reading.command(f"pumice logs {target} --tail 30"))]
    end = status.last_state.terminated if status is not None else None
    if status is not None and end is None:
        lacks = status.name == CODE_CONTAINER and "executable file not found" in message
    else:
        lacks = status is not None and end is not None and lacks_tools(status.name, end.exit_code, end.reason)
    if lacks:
        hints = [Hint(f"{NOT_UNPACKED}: {READ_ONLY_CODE}")]
    return Cause(
        code=WAIT_CODES.get(reason, WhyCode.NODE),
        message=wait_sentence(observed, waiting),
        since=lines[0].since or observed.created_at,
        evidence=(*lines, *_node(pod)),
        hints=tuple(hints),
        task=observed.task,
    )


def _last_end(pod: PodReading, status: ContainerStatus | None) -> Iterator[EvidenceLine]:
    """Say how the container of a crash loop ended last, and how often it has started again."""
    end = status.last_state.terminated if status is not None else None
    if status is None or end is None:
        return
    last = ContainerEnd(status.name, end.exit_code, end.reason, end.signal)
    said = f": {one_line(end.message)}" if end.message.strip() else ""
    field = f"status.containerStatuses[{status.name}].lastState.terminated"
    text = f"{how_it_ended(last)}{said}; {status.restart_count} restarts"
    yield pod_line(pod, field, text, pod.observed.changed_at)


def _missing(reading: ClusterReading, message: str) -> Iterator[tuple[EvidenceLine, Hint]]:
    """Yield the object, or its key, that a container misses, and what helps."""
    name, namespace = reading.job.name, reading.job.namespace
    if (key := _KEY_MISSING.search(message)) is not None:
        kind, owner = key[2], key[4].rstrip(".")
        line = EvidenceLine(kind=kind, name=owner, field=f"data[{key[1]}]", text="not found")
        yield line, Hint(f"add key {key[1]} to {kind} {owner}, or correct the key in the pod template")
    elif (missing := _OBJECT_MISSING.search(message)) is not None:
        line = EvidenceLine(kind=_KINDS[missing[1]], name=missing[2], field="", text=f"not found in {namespace}")
        kind = "secret generic" if missing[1] == "secret" else "configmap"
        create = f"kubectl create {kind} {missing[2]} -n {namespace} --from-literal=KEY=VALUE"
        hint = Hint("to create it", create)
        if missing[2].startswith(naming.OWN_VARIABLES):
            # Nobody else knows the values.
            text = "the command that submitted it ended before it sent the values of --env; submit it again after"
            hint = Hint(text, reading.command(f"pumice rm {name} --force"))
        yield line, hint


def _node(pod: PodReading) -> Iterator[EvidenceLine]:
    if node := pod.details.spec.get("nodeName"):
        yield EvidenceLine(kind="Pod", name=pod.name, field="spec.nodeName", text=str(node))


def readiness_cause(reading: ClusterReading) -> Cause | None:
    """Return the first pod that runs and is not ready, and what its probe says."""
    for pod in reading.live_pods:
        if pod.observed.phase is not PodPhase.RUNNING or pod.observed.ready:
            continue
        condition = pod.details.condition("Ready")
        since = condition.since if condition is not None else None
        events = reading.events_of_pods([pod], _UNHEALTHY)
        if events:
            text, line = in_words("", events[0].message), event_line(events[0])
        else:
            text = in_words(condition.reason, condition.message) if condition is not None else ""
            line = pod_line(pod, "status.conditions[Ready]", text or "False", since)
        return Cause(
            code=WhyCode.STARTING,
            message=f"{pod.short_name} runs and is not ready{f': {text}' if text else ''}",
            since=since or line.since,
            evidence=(line,),
            task=pod.observed.task,
        )
    return None
