"""PodGroups on the API server: watched, created, updated, removed. The core decides what is in them.

An API server whose feature gate is off drops `spec.schedulingGroup` of pods in silence. Such pods would start one by
one, so `check_membership` refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.diagnosis.cluster.objects import NATIVE_SCHEDULED, Condition
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, if_found
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache, ResourceCache
from pumice.engines.kubernetes.cache.decode_pods import CachedPod, job_of, owned_by
from pumice.engines.kubernetes.cache.store import Identity
from pumice.engines.kubernetes.controller.failed_calls import ATTEMPTS, failed, failing, name_taken
from pumice.model.job import Job, Manifest
from pumice.model.snapshot import JobKey, ObservedGroup
from pumice.model.vocabulary import VOLCANO, GangProvider
from pumice.reconcile.gangs import group_names
from pumice.runtime.ports import EngineError

# Only Volcano's scheduler admits a PodGroup before it looks at its pods; elsewhere pods are created at once.
_ADMITTED: Final = "Inqueue"
_VOLCANO_SCHEDULED: Final = "Scheduled"


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    conditions: list[Condition] = []


class _Group(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    spec: dict[str, Any] = {}
    status: _Status = _Status()


class CachedGroup(Identity, frozen=True):
    job: JobKey
    job_uid: str
    spec: Manifest
    annotations: dict[str, str]
    phase: str
    conditions: tuple[Condition, ...]
    is_deleting: bool

    @property
    def relevant_fields(self) -> tuple[object, ...]:
        """Everything that a pass reads: of the conditions their content and order in time, but not the times."""
        by_time = sorted(self.conditions, key=lambda condition: condition.last_transition_time or "")
        conditions = [(condition.type, condition.status, condition.reason, condition.message) for condition in by_time]
        return (self.job_uid, self.spec, self.annotations, self.phase, self.is_deleting, conditions)


_GROUP: Final = msgspec.json.Decoder(_Group)


def decode_group(raw: bytes | msgspec.Raw) -> CachedGroup | None:
    group = _GROUP.decode(raw)
    meta, job = group.metadata, job_of(group.metadata.owner_references)
    if job is None:
        return None
    return CachedGroup(
        *meta.identity,
        job=JobKey(meta.namespace, job.name),
        job_uid=job.uid,
        spec=group.spec,
        annotations=meta.annotations,
        phase=group.status.phase,
        conditions=tuple(group.status.conditions),
        is_deleting=meta.deletion_timestamp is not None,
    )


@dataclass(slots=True)
class PodGroupManager:
    client: Client
    cache: ClusterCache
    resource: Resource
    provider: GangProvider
    watched: ResourceCache[CachedGroup] = field(init=False)

    def __post_init__(self) -> None:
        self.watched = self.cache.watch(self.resource, decode_group, self._changed)

    def _changed(self, before: CachedGroup | None, after: CachedGroup | None) -> None:
        if before is not None and after is not None and before.relevant_fields == after.relevant_fields:
            # A scheduler renews the conditions of a waiting group again and again.
            return
        for group in (before, after):
            if group is not None:
                self.cache.enqueue(group.job)

    def observed(self, job: Job) -> ObservedGroup | None:
        names = group_names(job, self.provider)
        found = self.of(job, names)
        if not found:
            return None
        phase = _ADMITTED if len(found) == len(names) else ""
        if self.provider.name == VOLCANO.name:
            phase = found[0].phase
        manifests: dict[str, Manifest] = {
            group.name: {"metadata": {"annotations": group.annotations}, "spec": group.spec} for group in found
        }
        return ObservedGroup(manifests, phase, next(filter(None, map(self._why_not_scheduled, found)), ""))

    def _why_not_scheduled(self, group: CachedGroup) -> str:
        """What the scheduler says about a PodGroup that it has not scheduled."""
        if self.provider.name == VOLCANO.name:
            newest = _newest(one for one in group.conditions if one.status == "True")
            return newest.message if newest is not None and newest.type != _VOLCANO_SCHEDULED else ""
        newest = _newest(one for one in group.conditions if one.type in NATIVE_SCHEDULED)
        return newest.message if newest is not None and newest.status == "False" else ""

    def of(self, job: Job, names: Iterable[str]) -> list[CachedGroup]:
        """The job's groups of these names, except those that are being deleted."""
        found = (self.watched.get(job.namespace, name) for name in names)
        return [group for group in found if group is not None and group.job_uid == job.uid and not group.is_deleting]

    async def ensure(self, job: Job, wanted: Manifest) -> None:
        """Create the group, or update it."""
        name = wanted["metadata"]["name"]
        try:
            raw = await self.client.create(self.resource, job.namespace, msgspec.json.encode(wanted), attempts=ATTEMPTS)
        except ApiError as error:
            if not error.already_exists:
                raise failed("create", self.resource, name, error) from error
            raw = await self._update(job, wanted)
        group = decode_group(raw)
        if group is not None:
            self.watched.put(group)

    async def _update(self, job: Job, wanted: Manifest) -> bytes:
        """Update the group. Its scheduler writes to it, too, so conflicts are retried."""
        with failing("update", self.resource, wanted["metadata"]["name"]):
            for _ in range(ATTEMPTS - 1):
                try:
                    return await self._update_once(job, wanted)
                except ApiError as error:
                    if not error.is_conflict:
                        raise
            return await self._update_once(job, wanted)

    async def _update_once(self, job: Job, wanted: Manifest) -> bytes:
        name = wanted["metadata"]["name"]
        there = msgspec.json.decode(await self.client.get(self.resource, job.namespace, name, attempts=ATTEMPTS))
        if not owned_by(there, job.uid):
            raise name_taken(self.resource.kind, name)
        if there["metadata"].get("deletionTimestamp"):
            raise EngineError("FailedCreate", f"PodGroup {name} of the previous run is still being deleted")
        metadata = {**there["metadata"]}
        if annotations := wanted["metadata"].get("annotations"):
            metadata["annotations"] = {**metadata.get("annotations", {}), **annotations}
        merged = {**there, "metadata": metadata, "spec": {**there.get("spec", {}), **wanted["spec"]}}
        body = msgspec.json.encode(merged)
        return await self.client.replace(self.resource, job.namespace, name, body, attempts=ATTEMPTS)

    async def remove(self, job: Job, name: str) -> None:
        for group in self.of(job, [name]):
            raw = b"{}"
            with failing("delete", self.resource, name), if_found():
                raw = await self.client.delete(self.resource, job.namespace, name, uid=group.uid, attempts=ATTEMPTS)
            # The answer is the PodGroup if a finalizer keeps it, else a Status.
            answer = msgspec.json.decode(raw).get("metadata") or {}
            if answer.get("deletionTimestamp") is None:
                self.watched.remove(group)
            else:
                # It stays until its pods are gone. Its successor has the same name, so the job waits for its removal.
                version = str(answer.get("resourceVersion", ""))
                self.watched.put(msgspec.structs.replace(group, is_deleting=True, resource_version=version))


def check_membership(wanted: Manifest, created: CachedPod) -> None:
    """Raise EngineError if the server dropped the field that makes the pod a member of its gang."""
    group = wanted["spec"].get("schedulingGroup")
    if group is not None and created.group != group["podGroupName"]:
        raise EngineError(
            "GangUnsupported",
            f"the API server dropped spec.schedulingGroup of pod {created.name}: its feature gate GenericWorkload is "
            "off; turn it on, or start the controller with another --gang",
        )


def _newest(conditions: Iterable[Condition]) -> Condition | None:
    return max(conditions, key=lambda condition: condition.last_transition_time or "", default=None)
