"""Builders of objects as an API server writes them, and of what was read of a cluster."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, TypeVar

import msgspec

from pumice.diagnosis.cluster.objects import Claim, Event, Lease, Node, PodDetails, PodGroup, Queue
from pumice.diagnosis.cluster.reading import ClusterReading, PodReading
from pumice.diagnosis.outcome import Outcome
from pumice.engines.kubernetes.cache.decode_pods import decode_pod
from pumice.model import keys
from pumice.model.job import Job, JobState, JobStatus, TaskState
from tests.builders import OWNER, a_job, a_task, a_template

NOW: Final = dt.datetime(2026, 5, 4, 12, 0, 0, tzinfo=dt.UTC)
GPU: Final = "nvidia.com/gpu"
T = TypeVar("T")
Json = dict[str, Any]


def ago(seconds: int) -> str:
    return (NOW - dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def needs(**requests: str) -> Json:
    """A template whose container requests resources; `gpu` stands for those of NVIDIA."""
    names = {"gpu": GPU}
    resources = {names.get(name, name): value for name, value in requests.items()}
    container = {"name": "main", "image": "example.com/image:1"}
    return a_template({**container, "resources": {"requests": resources, "limits": resources}})


def job(
    *tasks: Any,
    phase: str = "Pending",
    reason: str = "",
    message: str = "",
    counts: dict[str, dict[str, int]] | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Job:
    """The Job `train` of namespace `lab`, in its phase for five minutes."""
    made = a_job(*(tasks or [a_task("worker", 2)]), metadata={"creation_timestamp": ago(310)}, **spec)
    state = JobState(phase=phase, reason=reason, message=message, last_transition_time=ago(300) if phase else None)
    known = {name: TaskState(phase=phases) for name, phases in (counts or {}).items()}
    return made.replace(status=JobStatus(state=state, task_status_count=known, **(status or {})))


def pod(
    name: str = "worker-0", phase: str = "Pending", *, spec: Json | None = None, meta: Json | None = None, **status: Any
) -> PodReading:
    """A pod of the Job by its short name, from its JSON."""
    task, _, index = name.rpartition("-")
    annotations = {
        keys.TASK_SPEC: task,
        keys.TASK_INDEX: index,
        keys.JOB_VERSION: "0",
        **(meta or {}).pop("annotations", {}),
    }
    plain = {
        "metadata": {
            "name": f"train-{name}",
            "uid": f"uid-{name}",
            "namespace": "lab",
            "creationTimestamp": ago(200),
            "ownerReferences": [OWNER],
            "annotations": annotations,
            **(meta or {}),
        },
        "spec": {"containers": [{"name": "main"}], "restartPolicy": "OnFailure", **(spec or {})},
        "status": {"phase": phase, **status},
    }
    cached = decode_pod(msgspec.json.encode(plain))
    assert cached is not None
    return PodReading(cached.observed, msgspec.convert(plain, PodDetails))


def unscheduled(message: str, reason: str = "Unschedulable") -> list[Json]:
    return [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": ago(180),
        }
    ]


def container(reason: str = "", message: str = "", **fields: Any) -> list[Json]:
    """The status of the only container, which waits for a reason, or runs."""
    state = {"waiting": {"reason": reason, "message": message}} if reason else {"running": {"startedAt": ago(20)}}
    return [{"name": "main", "image": "example.com/image:1", "state": state, **fields}]


def event(kind: str, name: str, reason: str, message: str, seconds: int = 60, **fields: Any) -> Event:
    plain = {
        "metadata": {"name": f"{name}.1", "namespace": "lab"},
        "involvedObject": {"kind": kind, "name": name},
        "reason": reason,
        "message": message,
        "firstTimestamp": ago(seconds + 60),
        "lastTimestamp": ago(seconds),
        **fields,
    }
    return msgspec.convert(plain, Event)


def node(name: str, *taints: Json, labels: dict[str, str] | None = None, **fields: Any) -> Node:
    """A node with 8 CPUs, 32Gi and 8 GPUs; `allocatable`, `unschedulable` and `conditions` change that."""
    allocatable = {"cpu": "8", "memory": "32Gi", GPU: "8", "pods": "110", **fields.get("allocatable", {})}
    plain = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": fields.get("unschedulable", False)},
        "status": {"allocatable": allocatable, "conditions": fields.get("conditions", [])},
    }
    return msgspec.convert(plain, Node)


def claim(name: str, phase: str = "Bound", storage: str | None = "fast") -> Claim:
    plain = {
        "metadata": {"name": name, "namespace": "lab", "uid": f"uid-{name}"},
        "spec": {"storageClassName": storage} if storage is not None else {},
        "status": {"phase": phase},
    }
    return msgspec.convert(plain, Claim)


def group(phase: str = "Pending", *conditions: Json, **fields: Any) -> PodGroup:
    """Volcano's PodGroup of the Job; `spec`, `meta` and `apiVersion` change it."""
    plain = {
        "apiVersion": fields.get("apiVersion", "scheduling.volcano.sh/v1beta1"),
        "metadata": {
            "name": "train-8f2c1a04",
            "namespace": "lab",
            "uid": "uid-group",
            "creationTimestamp": ago(300),
            **fields.get("meta", {}),
        },
        "spec": {"queue": "default", "minMember": 2, **fields.get("spec", {})},
        "status": {"phase": phase, "conditions": list(conditions)} if phase else {},
    }
    return msgspec.convert(plain, PodGroup)


def condition(kind: str, status: str, reason: str, message: str, seconds: int = 120) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(seconds),
    }


def queue(name: str = "default", state: str = "Open", **fields: Any) -> Queue:
    plain = {
        "metadata": {"name": name},
        "spec": {"capability": fields.get("capability", {}), "dequeueStrategy": fields.get("strategy", "")},
        "status": {"state": state, "allocated": fields.get("allocated", {})},
    }
    return msgspec.convert(plain, Queue)


def lease(holder: str = "pumice-7d9_1", renewed: int = 3) -> Lease:
    plain = {
        "metadata": {"name": "pumice-controller", "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": ago(renewed)},
    }
    return msgspec.convert(plain, Lease)


def reading(made: Job | None = None, **fields: Any) -> ClusterReading:
    """What was read about a Job whose queue has let it in."""
    known = {
        "outcome": Outcome.STARTING,
        "pod_groups": (group("Inqueue"),),
        "queues": (queue(),),
        "options": "--on prod -n lab",
    }
    return ClusterReading(job=made or job(), **{**known, **fields})
