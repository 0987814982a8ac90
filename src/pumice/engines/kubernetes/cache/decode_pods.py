"""Decodes pods and other objects, only the fields that Pumice reads.

The JSON of a pod is several kilobytes, the decoded part a few hundred bytes: with ten thousand pods this saves most of
the memory and half of the time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pumice.diagnosis.cluster.objects import Condition, ContainerStatus, Terminated
from pumice.engines.kubernetes.api.object_metadata import AnyObject, OwnerReference, read_metadata
from pumice.engines.kubernetes.cache.store import Identity
from pumice.model import keys
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase, Waiting
from pumice.model.units import EPOCH, NEVER, is_number, read_number, read_time
from pumice.model.vocabulary import GROUP_VERSION, KIND

_GROUP: Final = GROUP_VERSION.partition("/")[0]
# What a container that starts in its turn waits for.
_STARTING: Final = frozenset(("", "ContainerCreating", "PodInitializing"))
_NODE_LOST: Final = "NodeLost"
_SECOND: Final = dt.timedelta(seconds=1)
_KNOWN_PHASES: Final = frozenset(str(phase) for phase in PodPhase)


class _Annotations(Struct, frozen=True):
    """The annotations that identify a pod within its job."""

    task: str = field(name=keys.TASK_SPEC, default="")
    index: str = field(name=keys.TASK_INDEX, default="")
    version: str = field(name=keys.JOB_VERSION, default="")
    retry: str = field(name=keys.JOB_RETRY_COUNT, default="")


class _PodMeta(Struct, rename="camel", frozen=True):
    name: str
    uid: str
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: _Annotations = _Annotations()
    owner_references: list[OwnerReference] = []


class _PodStatus(Struct, rename="camel", frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class _SchedulingGroup(Struct, rename="camel", frozen=True):
    pod_group_name: str = ""


class _Container(Struct, rename="camel", frozen=True):
    name: str = ""
    restart_policy: str = ""  # its own; that of an init container makes it a sidecar
    restart_policy_rules: list[msgspec.Raw] = []


class _PodSpec(Struct, rename="camel", frozen=True):
    node_name: str = ""
    restart_policy: str = ""
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    scheduling_group: _SchedulingGroup | None = None


class _Pod(Struct, frozen=True):
    metadata: _PodMeta
    status: _PodStatus = _PodStatus()
    spec: _PodSpec = _PodSpec()


class CachedPod(Identity, frozen=True):
    """A pod of a Job."""

    job: JobKey
    job_uid: str
    observed: ObservedPod
    is_gone: bool = False  # deleted without a grace period
    group: str = ""  # spec.schedulingGroup


class CachedObject(Identity, frozen=True):
    """The metadata of any other object."""

    job: JobKey | None = None
    job_uid: str = ""


class _PriorityClass(AnyObject, frozen=True):
    value: int = 0


class CachedPriorityClass(Identity, frozen=True):
    """A PriorityClass, which has no namespace."""

    value: int


_POD: Final = msgspec.json.Decoder(_Pod)
_PRIORITY_CLASS: Final = msgspec.json.Decoder(_PriorityClass)


def decode_pod(raw: bytes | msgspec.Raw) -> CachedPod | None:
    """Return None for a pod that no Job owns, or without an index."""
    pod = _POD.decode(raw)
    meta, owner = pod.metadata, job_of(pod.metadata.owner_references)
    if owner is None or not is_number(meta.annotations.index):
        return None
    return CachedPod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        job=JobKey(meta.namespace, owner.name),
        job_uid=owner.uid,
        observed=_observed(pod),
        is_gone=meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0,
        group=pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else "",
    )


def decode_object(raw: bytes | msgspec.Raw) -> CachedObject:
    meta = read_metadata(raw)
    owner = job_of(meta.owner_references)
    if owner is None:
        return CachedObject(*meta.identity)
    return CachedObject(*meta.identity, JobKey(meta.namespace, owner.name), owner.uid)


def decode_owned(raw: bytes | msgspec.Raw) -> CachedObject | None:
    """Return None for an object that no Job owns."""
    item = decode_object(raw)
    return item if item.job is not None else None


def decode_priority_class(raw: bytes | msgspec.Raw) -> CachedPriorityClass:
    item = _PRIORITY_CLASS.decode(raw)
    return CachedPriorityClass(*item.metadata.identity, item.value)


def owned_by(manifest: dict[str, Any], uid: str) -> bool:
    """Whether the job with this uid controls the object."""
    owners = manifest["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


def job_of(owners: Iterable[OwnerReference]) -> OwnerReference | None:
    for owner in owners:
        if owner.controller and owner.kind == KIND and owner.api_version.partition("/")[0] == _GROUP:
            return owner
    return None


def _observed(pod: _Pod) -> ObservedPod:
    meta, status, annotations = pod.metadata, pod.status, pod.metadata.annotations
    containers = status.container_statuses
    all_containers = [*status.init_container_statuses, *containers]
    ready = bool(containers) and all(container.ready for container in containers)
    restarts = sum(container.restart_count for container in all_containers)
    is_unreachable = _is_unreachable(status, ready=ready)
    ends = [(one.name, one.state.terminated) for one in all_containers if one.state.terminated is not None]
    return ObservedPod(
        name=meta.name,
        uid=meta.uid,
        task=annotations.task,
        index=int(annotations.index),
        version=read_number(annotations.version),
        retry=read_number(annotations.retry),
        phase=_phase(status.phase),
        created_at=_latest(meta.creation_timestamp) or EPOCH,
        # A grace period of ten thousand years ends in a year that Python does not know.
        deleted_at=read_time(meta.deletion_timestamp) or NEVER if meta.deletion_timestamp is not None else None,
        ready=ready,
        restarts=restarts,
        reason=status.reason,
        message=status.message,
        ends=tuple(_end(name, end) for name, end in ends),
        has_ended=bool(ends) and _has_ended(pod),
        waiting=_waiting(status, all_containers),
        changed_at=None if ready and not restarts else _changed_at(all_containers),
        # Not of other pods: that a pod is bound to a node is no reason for a pass.
        node=pod.spec.node_name if is_unreachable or meta.deletion_timestamp is not None else "",
        is_unreachable=is_unreachable,
    )


def _waiting(status: _PodStatus, containers: list[ContainerStatus]) -> Waiting | None:
    """The first container that waits for more than its turn, init containers first; else what the scheduler says.

    The scheduler may write after a pod has begun to run: what it says of such a pod is outdated.
    """
    for container in containers:
        if container.state.waiting is not None and container.state.waiting.reason not in _STARTING:
            return Waiting(container.state.waiting.reason, container.state.waiting.message)
    for condition in status.conditions if status.phase in ("", PodPhase.PENDING) else ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason:
            return Waiting(condition.reason, condition.message)
    return None


def _changed_at(containers: list[ContainerStatus]) -> dt.datetime | None:
    running = (one.state.running.started_at for one in containers if one.state.running is not None)
    ended = (one.state.terminated.finished_at for one in containers if one.state.terminated is not None)
    return max(filter(None, map(_latest, (*running, *ended))), default=None)


def _is_unreachable(status: _PodStatus, *, ready: bool) -> bool:
    """Whether the cluster has lost contact with the node of the pod.

    The controller of nodes says so by an unready pod with ready containers, without the reason that a kubelet gives.
    """
    if status.phase == PodPhase.UNKNOWN or status.reason == _NODE_LOST:
        return True
    conditions = (one for one in status.conditions if one.type == "Ready")
    return (
        ready
        and status.phase == PodPhase.RUNNING
        and any(one.status == "False" and not one.reason for one in conditions)
    )


def _has_ended(pod: _Pod) -> bool:
    """Whether all containers have ended for good. Kubelet reports that a second before the phase of the pod."""
    spec = pod.spec
    containers = {one.name: one.state.terminated for one in pod.status.container_statuses}
    if spec.containers and all(_ended_for_good(one, spec, containers.get(one.name)) for one in spec.containers):
        # Sidecars do not count: kubelet stops them now.
        return True
    inits = {one.name: one.state.terminated for one in pod.status.init_container_statuses}
    return not any(containers.values()) and any(
        (end := inits.get(one.name)) is not None and end.exit_code != 0 and _ended_for_good(one, spec, end)
        for one in spec.init_containers
    )


def _ended_for_good(container: _Container, spec: _PodSpec, end: Terminated | None) -> bool:
    if end is None or container.restart_policy_rules:
        return False
    policy = container.restart_policy or spec.restart_policy
    return policy == "Never" or (policy == "OnFailure" and end.exit_code == 0)


def _end(container: str, ended: Terminated) -> ContainerEnd:
    finished, last_line = _latest(ended.finished_at), ended.message.strip().rpartition("\n")[2]
    # These two say no more than the exit code.
    reason = "" if ended.reason in ("Error", "Completed") else ended.reason
    return ContainerEnd(container, ended.exit_code, reason, ended.signal, finished, last_line)


def _latest(text: str | None) -> dt.datetime | None:
    """Return the end of the second: the times have no fractions, and no timeout may fire too early."""
    moment = read_time(text)
    return None if moment is None else moment + _SECOND


def _phase(text: str) -> PodPhase:
    if text in _KNOWN_PHASES:
        return PodPhase(text)
    return PodPhase.UNKNOWN if text else PodPhase.PENDING
