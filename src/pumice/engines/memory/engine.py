"""The Engine port over a `World`, with hooks for everything that goes wrong on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import msgspec

from pumice.engines.memory.cluster_state import StoredGroup, StoredPod, World
from pumice.model.job import JobStatus, Manifest
from pumice.model.objects import KeyPair, Once
from pumice.model.snapshot import JobKey, ObservedGroup, Snapshot
from pumice.model.vocabulary import NO_GANG, VOLCANO
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
from pumice.runtime.ports import ConflictError, EngineError


class CallFailure(Enum):
    """How a call to the engine fails."""

    CONFLICT = auto()
    NOT_DONE = auto()
    DONE = auto()  # the call took effect, but its answer is lost


@dataclass(slots=True)
class MemoryEngine:
    world: World
    fail_call: Callable[[str], CallFailure | None] = lambda _call: None
    after_call: Callable[[str], None] = lambda _call: None
    on_created: Callable[[JobKey, StoredPod], None] = lambda _key, _pod: None
    on_deleting: Callable[[JobKey, StoredPod], None] = lambda _key, _pod: None
    gang: bool = True
    first_group_phase: str = "Inqueue"  # of a new PodGroup: its queue has room
    events: list[tuple[JobKey, JobEvent]] = field(default_factory=list)
    calls: int = 0

    async def observe(self, key: JobKey) -> Snapshot | None:
        world, job = self.world, self.world.jobs.get(key)
        if job is None:
            return None
        group = world.groups.get(key)
        if group is not None:
            name = group.manifest["metadata"]["name"]
            observed = ObservedGroup({name: group.manifest}, group.phase, group.message)
        return Snapshot(
            job=job,
            pods=tuple(stored.seen for stored in world.pods_of(key)),
            group=observed if group is not None else None,
            owned_objects=dict(world.objects.get(key, {})),
            claims=frozenset(world.claims),
            commands=tuple(world.commands.get(key, {}).values()),
            gang=VOLCANO if self.gang else NO_GANG,
        )

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        key = JobKey(snapshot.job.namespace, snapshot.job.name)

        def write() -> None:
            job = self.world.jobs.get(key)
            if job is None or job.metadata.resource_version != snapshot.job.metadata.resource_version:
                raise ConflictError
            self.world.put_job(job)
            stored = self.world.jobs[key]
            self.world.jobs[key] = msgspec.structs.replace(stored, status=status)

        self._call("write_status", write)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        def act() -> None:
            # Objects of a deleted owner are garbage-collected.
            if key in self.world.jobs:
                self._do(key, command)

        self._call(type(command).__name__, act)

    async def emit(self, snapshot: Snapshot, events: Sequence[JobEvent]) -> None:
        key = JobKey(snapshot.job.namespace, snapshot.job.name)
        self.events += [(key, event) for event in events]

    def _call(self, name: str, act: Callable[[], None]) -> None:
        self.calls += 1
        failure = self.fail_call(name)
        if failure is CallFailure.CONFLICT and name == "write_status":
            raise ConflictError
        if failure is CallFailure.NOT_DONE:
            raise EngineError("Unavailable", f"{name} did not work")
        act()
        if failure is CallFailure.DONE:
            raise EngineError("Unavailable", f"{name} worked, but its answer was lost")
        self.after_call(name)

    def _do(self, key: JobKey, command: EngineCommand) -> None:
        world = self.world
        match command:
            case CreatePod(manifest):
                self._create_pod(key, manifest)
            case DeletePod():
                self._delete_pod(key, command)
            case Ensure(owned):
                self._ensure(key, owned)
            case Remove(kind, name):
                if kind == "PodGroup":
                    world.groups.pop(key, None)
                world.objects.get(key, {}).pop((kind, name), None)
                world.touch(key)
            case RemoveCommand(name, _):
                world.commands.get(key, {}).pop(name, None)
                world.touch(key)
            case DeleteJob(uid):
                job = world.jobs.get(key)
                if job is not None and job.uid == uid:
                    world.delete_job(key)

    def _create_pod(self, key: JobKey, manifest: Manifest) -> None:
        name, world = manifest["metadata"]["name"], self.world
        there = world.pods.get((key, name))
        if there is None:
            self.on_created(key, world.create_pod(key, manifest))
        elif there.owner != world.jobs[key].uid:
            raise EngineError("FailedCreate", f"pod {name} of an earlier job of this name still exists")

    def _delete_pod(self, key: JobKey, command: DeletePod) -> None:
        stored = self.world.pods.get((key, command.name))
        if command.unless_finished and stored is not None and stored.seen.is_finished:
            return
        if stored is not None and self.world.delete_pod(key, command.name, command.uid):
            self.on_deleting(key, stored)

    def _ensure(self, key: JobKey, owned: Manifest | Once) -> None:
        world, manifest = self.world, manifest_of(owned)
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "PodGroup":
            group = world.groups.get(key)
            phase = group.phase if group is not None else self.first_group_phase
            world.groups[key] = StoredGroup(manifest, phase)
        elif kind == "PersistentVolumeClaim":
            world.claims.add(name)
        else:
            there = world.objects.setdefault(key, {})
            if isinstance(owned, Once):
                manifest = there.get((kind, name)) or owned.created_with(self._keys)
            there[(kind, name)] = manifest
        world.touch(key)

    def _keys(self, _kind: str) -> KeyPair:
        uid = self.world.new_uid()
        return KeyPair(f"private {uid}", f"public {uid}")
