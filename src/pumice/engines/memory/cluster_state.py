"""What an API server would hold: jobs, pods and objects with uids and versions, owners, and graceful deletion.

Nothing happens here by itself: pods start, end and vanish when somebody (a scenario, a test) says so.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from pumice.engines.memory.clock import VirtualClock
from pumice.model import keys
from pumice.model.command import Command
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase
from pumice.model.timestamps import to_seconds

DEFAULT_GRACE = 30
# What is longer than this is for ever; a date could not hold it.
LONGEST_GRACE = 10 * 365 * 24 * 3600


@dataclass(slots=True)
class StoredPod:
    """A pod with its manifest, and what is known of it."""

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
    changed: list[JobKey] = field(default_factory=list)  # what a watch would tell
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def touch(self, key: JobKey) -> None:
        self.changed.append(key)

    def new_uid(self) -> str:
        return f"uid-{next(self._numbers)}"

    def put_job(self, job: Job) -> JobKey:
        """Create a job, or change the spec of one that is there."""
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
        """The job and all that it owns, as garbage collection would; pods at once, or when they have ended."""
        self.jobs.pop(key, None)
        self.groups.pop(key, None)
        self.objects.pop(key, None)
        self.commands.pop(key, None)
        for owner, name in [place for place in self.pods if place[0] == key]:
            if not pods_linger or not self.ask_to_delete(key, name):
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
            stored.seen = replace(stored.seen, **fields)  # type: ignore[arg-type]  # names are checked by dataclasses
            self.touch(key)

    def end_pod(self, key: JobKey, name: str, end: ContainerEnd) -> None:
        stored = self.pods[(key, name)]
        phase = PodPhase.SUCCEEDED if end.exit_code == 0 else PodPhase.FAILED
        self.change_pod(key, name, phase=phase, ready=False, ends=(*stored.seen.ends, end))

    def ask_to_delete(self, key: JobKey, name: str, uid: str = "") -> bool:
        """Begin a graceful deletion; a finished pod has nothing to end and goes at once."""
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
        """Those that the job owns; pods of an earlier job of its name are not."""
        job = self.jobs.get(key)
        return [one for (at, _), one in self.pods.items() if at == key and (job is None or one.owner == job.uid)]
