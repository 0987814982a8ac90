"""What a cluster says about one Job: the object, its pods and its events, each as far as this user may read it."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.cluster.archive.kept_logs import KeptLogs, read_kept_logs
from pumice.client.cluster.connection import Connection, gone
from pumice.diagnosis.cluster.objects import ContainerStatus, Event, PodDetails, PodStatus
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import CORE_EVENTS, JOBS, PODS
from pumice.engines.kubernetes.cache.decode_jobs import decode_job
from pumice.engines.kubernetes.cache.decode_pods import decode_pod
from pumice.model import keys
from pumice.model.job import Job, JobStatus, Manifest, Metadata
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.units import EPOCH, read_time
from pumice.model.vocabulary import Phase
from pumice.reconcile.phases import FINAL
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.store.run_errors import Denied

_OWN: Final = "pumice/"  # Pumice's controller writes such keys into controlledResources
_OVER: Final = FINAL | {Phase.ABORTED}
# What a diagnosis reads of a pod's spec, besides its claims.
_SPEC: Final = (
    "nodeName",
    "overhead",
    "resources",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
    "schedulingGroup",
)
_CONTAINER: Final = ("name", "resources", "restartPolicy")


class ContainerState(Struct, frozen=True):
    """The newest execution of a container; `started` is empty before its first one."""

    name: str
    restarts: int
    started: str
    is_running: bool


class ClusterPod(Struct, frozen=True):
    observed: ObservedPod
    namespace: str
    job_uid: str = ""
    containers: tuple[ContainerState, ...] = ()
    scheduled: dt.datetime | None = None
    started: dt.datetime | None = None  # the first of its containers
    finished: dt.datetime | None = None  # the last of its containers
    node: str = ""
    address: str = ""
    details: PodDetails = PodDetails()  # what only a diagnosis reads

    @property
    def name(self) -> str:
        return self.observed.name


class JobEventFact(Struct, frozen=True):
    time: dt.datetime
    uid: str  # of the object that it is about
    reason: str
    message: str
    is_warning: bool


class JobFacts(Struct, frozen=True):
    manifest: Manifest
    job: Job
    pods: Sequence[ClusterPod] = ()
    events: Sequence[JobEventFact] = ()
    unreadable: Sequence[str] = ()  # what this user may not read, in words
    where: str = ""  # the flags by which a command finds the Job
    on: str = ""  # the context
    kubeconfig: str = ""  # that the user named
    kept: KeptLogs = KeptLogs()  # of earlier attempts
    # Versions that a watch has seen since the facts before: a state may last for less than it takes to read it.
    earlier_jobs: Sequence[Job] = ()
    earlier_pods: Sequence[ClusterPod] = ()
    opened: str = ""  # the run as which it is read, once it is packed and opened

    @classmethod
    def of(
        cls, job: tuple[Manifest, Job], pods: Sequence[ClusterPod], events: Sequence[JobEventFact], **more: Any
    ) -> JobFacts:
        """Return facts with the pods in the order of the tasks, counted if the controller has not done it."""
        return cls(job[0], counted(job[1], pods), in_order(job[1], pods), events, **more)

    def check_pods(self) -> None:
        """Raises Denied if this user may not read the pods."""
        if "pods" in self.unreadable:
            raise Denied(f"{self.job.name}: its pods are not readable for you", "ask for get, list and watch of pods")


class _Spec(Struct, rename="camel", frozen=True):
    node_name: str = ""


class _Pod(Struct, frozen=True):
    spec: _Spec = _Spec()
    status: PodStatus = PodStatus()


class _AnyPod(Struct, frozen=True):
    spec: Manifest = {}


_POD: Final = msgspec.json.Decoder(_Pod)
_ANY_POD: Final = msgspec.json.Decoder(_AnyPod)
_DETAILS: Final = msgspec.json.Decoder(PodDetails)
_EVENT: Final = msgspec.json.Decoder(Event)
_JOB: Final = msgspec.json.Decoder(Job)


def read_job(raw: bytes | msgspec.Raw) -> tuple[Manifest, Job]:
    """Return a Job as it is stored, and as Pumice reads it: whatever an API server accepts."""
    manifest: dict[str, Any] = msgspec.json.decode(raw)
    manifest["metadata"].pop("managedFields", None)
    try:
        return manifest, _JOB.decode(raw)
    except msgspec.ValidationError:
        return manifest, decode_job(raw, kubernetes_types().types).job


def read_pod(raw: bytes | msgspec.Raw, job_uid: str = "", *, details: bool = False) -> ClusterPod | None:
    """Return a pod of the Job with this uid, or of any; None for another pod."""
    found = decode_pod(raw)
    if found is None or (job_uid and found.job_uid != job_uid):
        return None
    pod = _POD.decode(raw)
    status = pod.status
    all_statuses = [*status.init_container_statuses, *status.container_statuses]
    ends = [one.state.terminated for one in all_statuses if one.state.terminated is not None]
    scheduled = (one for one in status.conditions if one.type == "PodScheduled" and one.status == "True")
    main = [each for one in status.container_statuses for each in (one.state.running, one.state.terminated) if each]
    return ClusterPod(
        found.observed,
        found.namespace,
        found.job_uid,
        tuple(map(_container, all_statuses)),
        next((one.since for one in scheduled), None),
        min(filter(None, (read_time(each.started_at) for each in main)), default=None),
        max(filter(None, (read_time(each.finished_at) for each in ends)), default=None),
        pod.spec.node_name,
        status.pod_ip,
        PodDetails() if not details else _read_details(raw),
    )


def _container(found: ContainerStatus) -> ContainerState:
    state = found.state.running or found.state.terminated or found.last_state.terminated
    started = "" if state is None else state.started_at or str(EPOCH)
    return ContainerState(found.name, found.restart_count, started, found.state.running is not None)


def read_spec(raw: msgspec.Raw) -> Manifest:
    """Return the spec of any pod."""
    return _ANY_POD.decode(raw).spec


def needed_spec(spec: Manifest) -> Manifest:
    """Return the part of a pod's spec that a diagnosis reads: thousands of pods have long commands and variables."""
    found: Manifest = {name: spec[name] for name in _SPEC if name in spec}
    for name in ("containers", "initContainers"):
        found[name] = [{field: one[field] for field in _CONTAINER if field in one} for one in spec.get(name) or ()]
    found["volumes"] = [each for each in spec.get("volumes") or () if "persistentVolumeClaim" in each]
    return found


def _read_details(raw: bytes | msgspec.Raw) -> PodDetails:
    details = _DETAILS.decode(raw)
    return replace(details, metadata=Metadata(name=details.metadata.name), spec=needed_spec(details.spec))


async def read_facts(connection: Connection, raw: bytes | msgspec.Raw, *, details: bool = False) -> JobFacts:
    """Read the pods and the events of a Job. Raises RunError; what is forbidden is `unreadable`."""
    manifest, job = read_job(raw)
    unreadable: list[str] = []

    async def readable(what: str, **selection: str) -> list[msgspec.Raw]:
        try:
            resource = PODS if what == "pods" else CORE_EVENTS
            return await connection.all(resource, job.namespace, **selection)
        except Denied:
            unreadable.append(what)
            return []

    raw_pods, raw_events, kept = await asyncio.gather(
        readable("pods", labels=f"{keys.JOB_NAME}={job.name}"),
        readable("events", fields=f"involvedObject.name={job.name}"),
        read_kept_logs(connection, job),
    )
    pods = [pod for each in raw_pods if (pod := read_pod(each, job.uid, details=details)) is not None]
    return JobFacts.of(
        (manifest, job),
        pods,
        read_events(raw_events).get(job.uid, ()),
        unreadable=unreadable,
        where=connection.flags(job.namespace),
        on=connection.name,
        kubeconfig=connection.kubeconfig,
        kept=kept,
    )


async def read_current(connection: Connection, run: RunRef) -> Job:
    """Raises NoSuchRun if it was deleted or replaced, ApiError for errors that may pass, RunError for the others."""
    return (await read_current_manifest(connection, run))[1]


async def read_current_manifest(connection: Connection, run: RunRef) -> tuple[Manifest, Job]:
    try:
        raw = await connection.client.get(JOBS, run.namespace, run.name)
    except ApiError as error:
        if error.is_transient:
            raise
        if error.not_found and error.reason == "NotFound":
            raise gone(str(run)) from error
        raise connection.explained(error) from error
    manifest, job = read_job(raw)
    if job.uid != run.uid:
        raise gone(str(run), is_replaced=True)
    return manifest, job


def is_volcanos(status: JobStatus) -> bool:
    """Whether Volcano's controller has written the status, as far as that can be seen."""
    return bool(status.state.phase) and not any(key.startswith(_OWN) for key in status.controlled_resources)


def lacks_counts(status: JobStatus) -> bool:
    """Whether a Job has ended, and its status counts no pod, as Volcano's controller leaves it from 1.14 on."""
    return status.state.phase in _OVER and not status.running + status.succeeded + status.failed


def counted(job: Job, pods: Iterable[ClusterPod]) -> Job:
    """Return a Job with the numbers of its pods where its controller has not counted them."""
    status = job.status
    if not lacks_counts(status):
        return job
    seen = Counter(each.observed.phase for each in pods if not each.observed.is_deleting)
    return replace(job, status=replace(status, succeeded=seen[PodPhase.SUCCEEDED], failed=seen[PodPhase.FAILED]))


def in_order(job: Job, pods: Sequence[ClusterPod]) -> list[ClusterPod]:
    """Sort pods as the tasks of the Job are."""
    order = {task.name: number for number, task in enumerate(job.spec.tasks)}
    return sorted(pods, key=lambda each: (order.get(each.observed.task, len(order)), each.observed.index))


def read_event(raw: msgspec.Raw) -> JobEventFact | None:
    """Return None for an event without a time."""
    found = _EVENT.decode(raw)
    time = read_time(found.last_timestamp or found.event_time or found.first_timestamp)
    if time is None:
        return None
    return JobEventFact(time, found.involved_object.uid, found.reason, found.message, found.type == "Warning")


def read_events(raws: Iterable[msgspec.Raw]) -> dict[str, list[JobEventFact]]:
    """Return events by the uid of what they are about, each list in the order of time."""
    by_uid: dict[str, list[JobEventFact]] = {}
    for event in sorted(filter(None, map(read_event, raws)), key=lambda each: each.time):
        by_uid.setdefault(event.uid, []).append(event)
    return by_uid
