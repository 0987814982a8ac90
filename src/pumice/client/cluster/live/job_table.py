"""All Jobs of a namespace, or of all, with their pods: one watch each, and as little of each as the page needs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_end import COMMANDS_OF_JOBS
from pumice.client.cluster.job_facts import (
    ClusterPod,
    JobEventFact,
    JobFacts,
    read_event,
    read_job,
    read_pod,
    read_spec,
)
from pumice.client.cluster.job_rows import STOPPED
from pumice.client.cluster.journal_entries import history_of
from pumice.client.cluster.live_objects import LiveTable
from pumice.client.observer import ListedRun
from pumice.engines.kubernetes.api.resources import CORE_EVENTS, JOBS, PODS
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, pod_usage
from pumice.model.snapshot import FINISHED_PODS
from pumice.model.units import EPOCH, read_time

_RESERVED: Final = ("cpu", "memory", GPU)

Amounts = Mapping[str, Quantity]


class SeenJob(Struct, frozen=True):
    """A Job; `document` is its JSON without managed fields, because a decoded Job takes ten times as much memory."""

    document: bytes
    listed: ListedRun
    is_undecided: bool = False  # only events say whether a person ended it

    @property
    def ref(self) -> RunRef:
        return self.listed.ref

    def read(self) -> tuple[Manifest, Job]:
        return read_job(self.document)


class SeenPod(Struct, frozen=True):
    pod: ClusterPod
    requests: Amounts


@dataclass(slots=True)
class JobTable:
    connection: Connection
    jobs: LiveTable[SeenJob] = field(init=False)
    pods: LiveTable[SeenPod] = field(init=False)
    commands: LiveTable[JobEventFact] = field(init=False)  # what Volcano's controller tells of Commands
    _pods: dict[str, dict[str, SeenPod]] = field(default_factory=dict)  # by uid of the Job, and of the pod
    _versions: dict[str, int] = field(default_factory=dict)  # of Jobs with their pods, by uid
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _requests: dict[tuple[tuple[str, Quantity], ...], Amounts] = field(default_factory=dict)  # each set once
    _runs: Sequence[ListedRun] | None = None
    _decided: dict[str, tuple[int, ListedRun]] = field(default_factory=dict)  # by uid, with the version of the Job

    def __post_init__(self) -> None:
        namespace = self.connection.namespace
        self.jobs = LiveTable(self.connection, JOBS, namespace, _seen_job, self._job_changed)
        self.pods = LiveTable(
            self.connection, PODS, namespace, self._seen_pod, self._pod_changed, labels=str(keys.JOB_NAME)
        )
        self.commands = LiveTable(
            self.connection, CORE_EVENTS, namespace, read_event, self._command_changed, fields=COMMANDS_OF_JOBS
        )

    @property
    def runs(self) -> Sequence[ListedRun]:
        """The same object until a Job or a pod has changed."""
        if self._runs is None:
            versions = self._versions
            jobs = self.jobs.items.items()
            self._runs = [replace(self._listed(uid, each), version=versions[uid]) for uid, each in jobs]
        return self._runs

    def _listed(self, uid: str, job: SeenJob) -> ListedRun:
        if not job.is_undecided:
            return job.listed
        version = self._versions[uid]
        known = self._decided.get(uid)
        if known is None or known[0] != version:
            status = history_of(JobFacts(*job.read(), events=self.commands_of(uid))).status
            known = version, replace(job.listed, outcome=status.outcome, finished=status.finished)
            self._decided[uid] = known
        return known[1]

    def commands_of(self, uid: str) -> list[JobEventFact]:
        return sorted((each for each in self.commands.items.values() if each.uid == uid), key=lambda each: each.time)

    def version(self, uid: str) -> int:
        return self._versions.get(uid, 0)

    def pods_of(self, uid: str) -> list[ClusterPod]:
        return [each.pod for each in self._pods.get(uid, {}).values()]

    def requests_of(self, uid: str, *, on_nodes: bool) -> Iterator[Amounts]:
        """Yield what each pod of a Job holds: of a quota from its creation on, of a node once it has one."""
        for each in self._pods.get(uid, {}).values():
            if each.pod.observed.phase not in FINISHED_PODS and (each.pod.node or not on_nodes):
                yield each.requests

    def _job_changed(self, before: SeenJob | None, after: SeenJob | None) -> None:
        if after is not None:
            self._versions[after.ref.uid] = next(self._numbers)
        elif before is not None:
            self._versions.pop(before.ref.uid, None)
            self._decided.pop(before.ref.uid, None)
        self._runs = None

    def _pod_changed(self, before: SeenPod | None, after: SeenPod | None) -> None:
        if before is not None:
            of_job = self._pods.get(before.pod.job_uid, {})
            of_job.pop(before.pod.observed.uid, None)
            if not of_job:
                self._pods.pop(before.pod.job_uid, None)
        if after is not None:
            self._pods.setdefault(after.pod.job_uid, {})[after.pod.observed.uid] = after
        if either := after or before:
            self._part_changed(either.pod.job_uid)

    def _command_changed(self, before: JobEventFact | None, after: JobEventFact | None) -> None:
        if either := after or before:
            self._part_changed(either.uid)

    def _part_changed(self, uid: str) -> None:
        if uid in self._versions:
            self._versions[uid] = next(self._numbers)
            self._runs = None

    def _seen_pod(self, raw: msgspec.Raw) -> SeenPod | None:
        if (pod := read_pod(raw)) is None:
            return None
        usage = pod_usage(read_spec(raw))
        key = tuple((name, usage[name]) for name in usage if name in _RESERVED)
        return SeenPod(pod, self._requests.setdefault(key, dict(key)))


def _seen_job(raw: msgspec.Raw) -> SeenJob:
    manifest, job = read_job(raw)
    status = history_of(JobFacts(manifest, job)).status
    spec = job.spec
    words = [job.name, job.namespace, job.uid, spec.queue, *(task.name for task in spec.tasks), *spec.plugins]
    listed = ListedRun(
        RunRef(job.name, 0, job.namespace, job.uid),
        read_time(manifest["metadata"].get("creationTimestamp")) or EPOCH,
        " ".join(words).lower(),
        status.outcome,
        status.finished,
    )
    state = job.status.state
    return SeenJob(msgspec.json.encode(manifest), listed, state.phase in STOPPED and not state.reason)
