"""The Engine port on this machine: one job, whose pods are processes in a sandbox.

The state of the job is in memory only, because the sandbox ends with this process. The run directory keeps what users
look for afterwards.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from pumice.engines.local.kubelet.pod import LocalPod
from pumice.model import keys
from pumice.model.job import Job, JobSpec, JobStatus, Manifest
from pumice.model.objects import Once
from pumice.model.snapshot import Command, JobKey, ObservedGroup, Snapshot
from pumice.plugins.shaping import manifest_of
from pumice.reconcile.decision import (
    CreatePod,
    DeleteJob,
    DeletePod,
    EngineCommand,
    Ensure,
    JobEvent,
    Remove,
    RemoveCommand,
)
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.ports import ConflictError
from pumice.runtime.queue import KeyQueue

# The scheduler of this machine reserved room for the gang before the run started.
ADMITTED = "Inqueue"


class LocalEngine(Struct):
    job: Job
    create_pod: Callable[[Manifest, str, str], LocalPod]  # manifest, uid, address
    on_pass: Callable[[LocalEngine, Sequence[JobEvent]], None] = lambda _engine, _events: None
    on_status: Callable[[JobStatus], None] = lambda _status: None
    address_of: Callable[[str], str] = lambda _name: ""
    claims: frozenset[str] = frozenset()
    pods: dict[str, LocalPod] = field(default_factory=dict)
    objects: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    commands: dict[str, Command] = field(default_factory=dict)
    group: Manifest | None = None
    deleted: bool = False
    queue: KeyQueue = field(default_factory=KeyQueue)
    _deletions: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # by the uid of the pod

    @property
    def key(self) -> JobKey:
        return JobKey(self.job.namespace, self.job.name)

    def touch(self) -> None:
        """Have the loop reconcile the job."""
        self.queue.add(self.key)

    async def observe(self, key: JobKey) -> Snapshot | None:
        if key != self.key or self.deleted:
            return None
        return Snapshot(
            job=self.job,
            pods=tuple(pod.observed() for pod in self.pods.values()),
            group=None if self.group is None else ObservedGroup({self.group["metadata"]["name"]: self.group}, ADMITTED),
            owned_objects=dict(self.objects),
            claims=self.claims,
            commands=tuple(self.commands.values()),
        )

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        if snapshot.job.metadata.resource_version != self.job.metadata.resource_version:
            raise ConflictError
        self.job = msgspec.structs.replace(self._next_version(), status=status)
        self.on_status(status)
        self.touch()

    def _next_version(self, **metadata: int) -> Job:
        version = str(int(self.job.metadata.resource_version or 0) + 1)
        changed = msgspec.structs.replace(self.job.metadata, resource_version=version, **metadata)
        return msgspec.structs.replace(self.job, metadata=changed)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:  # noqa: ARG002 - there is only one job here
        match command:
            case CreatePod(manifest):
                self._create(manifest)
                # The pods that exist start while others are created.
                await asyncio.sleep(0)
            case DeletePod(name, uid, unless_finished):
                self._delete(name, uid, unless_finished=unless_finished)
            case Ensure(owned):
                self._ensure(owned)
            case Remove("PodGroup", _):
                self.group = None
            case Remove(kind, name):
                self.objects.pop((kind, name), None)
            case RemoveCommand(name, _):
                self.commands.pop(name, None)
            case DeleteJob(_):
                self.deleted = True

    async def emit(self, snapshot: Snapshot, events: Sequence[JobEvent]) -> None:  # noqa: ARG002 - likewise
        self.on_pass(self, events)

    def update(self, spec: JobSpec) -> None:
        """Change the spec, as an accepted update of the Job does."""
        if spec != self.job.spec:
            job = self._next_version(generation=self.job.metadata.generation + 1)
            self.job = msgspec.structs.replace(job, spec=spec)
            self.touch()

    def send(self, action: str) -> None:
        """Request an action, as a Command object does."""
        uid = str(uuid.uuid4())
        metadata = msgspec.structs.replace(Command().metadata, name=f"{action.lower()}-{uid[:8]}", uid=uid)
        self.commands[metadata.name] = Command(metadata=metadata, action=action)
        self.touch()

    async def end_all(self, grace: float | None = None) -> None:
        """End all pods; return when none of their processes is left. The sandbox removes their files."""
        remaining = [pod for pod in self.pods.values() if pod.uid not in self._deletions]
        await asyncio.gather(*(pod.end(grace) for pod in remaining))
        if self._deletions:
            await asyncio.wait(list(self._deletions.values()))

    def _create(self, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        if name in self.pods:
            return
        annotations: Mapping[str, str] = manifest["metadata"]["annotations"]
        address = self.address_of(f"{annotations[keys.TASK_SPEC]}-{annotations[keys.TASK_INDEX]}")
        pod = self.create_pod(manifest, str(uuid.uuid4()), address)
        self.pods[name] = pod
        pod.begin()
        self.touch()

    def _delete(self, name: str, uid: str, *, unless_finished: bool) -> None:
        pod = self.pods.get(name)
        if pod is None or pod.uid != uid or uid in self._deletions:
            return
        if unless_finished and pod.observed().is_finished:
            return

        async def delete() -> None:
            await pod.delete()
            if self.pods.get(name) is pod:
                del self.pods[name]
            self.touch()

        self._deletions[uid] = asyncio.create_task(delete(), name=f"delete {name}")
        self._deletions[uid].add_done_callback(lambda _task: self._deletions.pop(uid))

    def _ensure(self, owned: Manifest | Once) -> None:
        manifest = manifest_of(owned)
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "PodGroup":
            self.group = manifest
        elif kind == "PersistentVolumeClaim":
            self.claims = self.claims | {name}
        else:
            if isinstance(owned, Once):
                manifest = self.objects.get((kind, name)) or owned.created_with(make_key_pair)
            self.objects[(kind, name)] = manifest
        self.touch()
