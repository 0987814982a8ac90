"""The state of a simulated cluster: jobs, pods and objects with uids, versions, owners and graceful deletion.

Pods start, end and vanish only when a scenario or a test calls a method.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from pumice.engines.memory.timeline import VirtualClock
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import Command, ContainerEnd, JobKey, ObservedPod, PodPhase
from pumice.model.units import to_seconds

DEFAULT_GRACE = 30
# Ten years; dates beyond the year 9999 do not exist.
LONGEST_GRACE = 10 * 365 * 24 * 3600


@dataclass(slots=True)
class StoredPod:
    """A pod: its manifest and its observed state."""

    manifest: Manifest
    seen: ObservedPod
    owner: str = ""  # uid of its job

    @property
    def grace(self) -> dt.timedelta:
        seconds = self.manifest["spec"].get("terminationGracePeriodSeconds")
        return dt.timedelta(seconds=DEFAULT_GRACE if seconds is None else min(seconds, LONGEST_GRACE))


@dataclass(slots=True)
class StoredGroup:
    manifest: Manifest
    phase: str = ""
    message: str = ""


@dataclass(slots=True)
class World:
    clock: VirtualClock
    jobs: dict[JobKey, Job] = field(default_factory=dict)
    pods: dict[tuple[JobKey, str], StoredPod] = field(default_factory=dict)
    groups: dict[JobKey, StoredGroup] = field(default_factory=dict)
    objects: dict[JobKey, dict[tuple[str, str], Manifest]] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)
    commands: dict[JobKey, dict[str, Command]] = field(default_factory=dict)
    changed: list[JobKey] = field(default_factory=list)  # what a watch would report
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def touch(self, key: JobKey) -> None:
        self.changed.append(key)

    def new_uid(self) -> str:
        return f"uid-{next(self._numbers)}"

    def put_job(self, job: Job) -> JobKey:
        """Create a job, or update its spec."""
        key = JobKey(job.namespace or "default", job.name)
        old = self.jobs.get(key)
        metadata = msgspec.structs.replace(
            job.metadata,
            namespace=key.namespace,
            uid=old.uid if old else self.new_uid(),
            generation=1 if old is None else old.metadata.generation + (old.spec != job.spec),
            resource_version=str(next(self._numbers)),
            creation_timestamp=old.metadata.creation_timestamp if old else to_seconds(self.clock.now),
        )
        self.jobs[key] = msgspec.structs.replace(job, metadata=metadata, status=old.status if old else job.status)
        self.touch(key)
        return key

    def delete_job(self, key: JobKey, *, pods_linger: bool = False) -> None:
        """Delete the job and all that it owns; pods at once, or gracefully."""
        self.jobs.pop(key, None)
        self.groups.pop(key, None)
        self.objects.pop(key, None)
        self.commands.pop(key, None)
        for owner, name in [pod for pod in self.pods if pod[0] == key]:
            if not pods_linger or not self.delete_pod(key, name):
                self.pods.pop((owner, name), None)
        self.touch(key)

    def send(self, key: JobKey, command: Command) -> None:
        uid = self.new_uid()
        metadata = msgspec.structs.replace(
            command.metadata, uid=uid, name=command.metadata.name or uid, creation_timestamp=to_seconds(self.clock.now)
        )
        self.commands.setdefault(key, {})[metadata.name] = msgspec.structs.replace(command, metadata=metadata)
        self.touch(key)

    def create_pod(self, key: JobKey, manifest: Manifest) -> StoredPod:
        annotations = manifest["metadata"]["annotations"]
        seen = ObservedPod(
            name=manifest["metadata"]["name"],
            uid=self.new_uid(),
            task=annotations[keys.TASK_SPEC],
            index=int(annotations[keys.TASK_INDEX]),
            version=int(annotations[keys.JOB_VERSION]),
            retry=int(annotations[keys.JOB_RETRY_COUNT]),
            phase=PodPhase.PENDING,
            created_at=self.clock.now,
        )
        stored = StoredPod(manifest, seen, self.jobs[key].uid)
        self.pods[(key, seen.name)] = stored
        self.touch(key)
        return stored

    def change_pod(self, key: JobKey, name: str, **fields: object) -> None:
        stored = self.pods.get((key, name))
        if stored is not None:
            stored.seen = replace(stored.seen, **fields)
            self.touch(key)

    def end_pod(self, key: JobKey, name: str, end: ContainerEnd) -> None:
        stored = self.pods[(key, name)]
        phase = PodPhase.SUCCEEDED if end.exit_code == 0 else PodPhase.FAILED
        self.change_pod(key, name, phase=phase, ready=False, ends=(*stored.seen.ends, end))

    def delete_pod(self, key: JobKey, name: str, uid: str = "") -> bool:
        """Start a graceful deletion; a finished pod is removed at once. Return whether the pod terminates now."""
        stored = self.pods.get((key, name))
        if stored is None or (uid and stored.seen.uid != uid) or stored.seen.is_deleting:
            return False
        if stored.seen.is_finished:
            self.vanish(key, name, stored.seen.uid)
            return False
        self.change_pod(key, name, deleted_at=self.clock.now + stored.grace)
        return True

    def vanish(self, key: JobKey, name: str, uid: str) -> None:
        stored = self.pods.get((key, name))
        if stored is not None and stored.seen.uid == uid:
            del self.pods[(key, name)]
            self.touch(key)

    def pods_of(self, key: JobKey) -> list[StoredPod]:
        """The pods that the job owns, without those of an earlier job of its name."""
        job = self.jobs.get(key)
        return [one for (at, _), one in self.pods.items() if at == key and (job is None or one.owner == job.uid)]
