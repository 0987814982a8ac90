"""The cache of the cluster: one informer per kind and namespace, and an index from each job to its objects.

Every change about a job enqueues its key, and nothing more: the reconcile loop then looks at the whole job.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.decode_jobs import (
    CachedCommand,
    CachedJob,
    decode_command,
    decode_job,
    reuse_spec,
    same_except_text,
)
from pumice.engines.kubernetes.cache.decode_pods import (
    CachedObject,
    CachedPod,
    CachedPriorityClass,
    decode_object,
    decode_owned,
    decode_pod,
    decode_priority_class,
)
from pumice.engines.kubernetes.cache.informer import Informer
from pumice.engines.kubernetes.cache.store import T
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.objects import claim_names
from pumice.model.shape import Schema
from pumice.model.snapshot import JobKey

# The kinds of owned objects whose content is compared with the desired one.
OWNED_KINDS: Final = (resources.SERVICES, resources.CONFIG_MAPS, resources.NETWORK_POLICIES)
ALL_NAMESPACES: Final = ""

K = TypeVar("K")
V = TypeVar("V")
Owner = TypeVar("Owner")


class ResourceCache(Struct, Generic[T], frozen=True):
    """All objects of one kind in the served namespaces."""

    informers: Mapping[str, Informer[T]]  # by namespace, or one for ALL_NAMESPACES

    def get(self, namespace: str, name: str) -> T | None:
        informer = self._informer(namespace)
        return informer.store.items.get((namespace, name)) if informer is not None else None

    def __iter__(self) -> Iterator[T]:
        for informer in self.informers.values():
            yield from informer.store.items.values()

    def __len__(self) -> int:
        return sum(len(informer.store.items) for informer in self.informers.values())

    def put(self, item: T) -> None:
        """Store the response to an own write, before the watch shows it."""
        informer = self._informer(item.namespace)
        if informer is not None:
            informer.store.put(item)

    def remove(self, item: T) -> None:
        """Remove an object after its own deletion, before the watch shows it."""
        informer = self._informer(item.namespace)
        if informer is not None:
            informer.store.remove(item.uid)

    def _informer(self, namespace: str) -> Informer[T] | None:
        return self.informers.get(namespace) or self.informers.get(ALL_NAMESPACES)


@dataclass(slots=True)
class ClusterCache:
    client: Client
    kubernetes: Schema
    namespaces: Sequence[str]  # empty: all
    enqueue: Callable[[JobKey], None]
    add_defaults: Callable[[Job], Job] = lambda job: job  # the defaults that the webhook adds
    jobs: ResourceCache[CachedJob] = field(init=False)
    pods: ResourceCache[CachedPod] = field(init=False)
    commands: ResourceCache[CachedCommand] = field(init=False)
    claims: ResourceCache[CachedObject] = field(init=False)
    priority_classes: ResourceCache[CachedPriorityClass] = field(init=False)
    owned_objects: dict[str, ResourceCache[CachedObject]] = field(init=False)  # by kind
    pods_of: dict[JobKey, dict[str, CachedPod]] = field(default_factory=lambda: defaultdict(dict))
    commands_of: dict[JobKey, dict[str, CachedCommand]] = field(default_factory=lambda: defaultdict(dict))
    owned_objects_of: dict[JobKey, dict[tuple[str, str], CachedObject]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    # The jobs that use a claim, by namespace and name of the claim.
    _claimants: dict[tuple[str, str], dict[JobKey, None]] = field(default_factory=lambda: defaultdict(dict))
    _informers: list[Informer[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known: dict[tuple[str, str], CachedJob] = {}

        def decode(raw: msgspec.Raw) -> CachedJob:
            job = decode_job(raw, self.kubernetes)
            key = (job.namespace, job.name)
            known[key] = reuse_spec(job, known.get(key), self.add_defaults)
            return known[key]

        def changed(before: CachedJob | None, after: CachedJob | None) -> None:
            if after is None and before is not None:
                known.pop((before.namespace, before.name), None)
            self._job_changed(before, after)

        self.jobs = self.watch(resources.JOBS, decode, changed)
        self.pods = self.watch(resources.PODS, decode_pod, self._pod_changed, label_selector=keys.JOB_NAME)
        self.commands = self.watch(resources.COMMANDS, decode_command, self._command_changed)
        self.claims = self.watch(resources.CLAIMS, decode_object, self._claim_changed, metadata_only=True)
        # Priority classes enqueue nothing: they are looked up in the next pass.
        self.priority_classes = self.watch(
            resources.PRIORITY_CLASSES, decode_priority_class, lambda _before, _after: None, optional=True
        )
        self.owned_objects = {
            resource.kind: self.watch(
                resource,
                decode_owned,
                self._owned_object_changed(resource.kind),
                metadata_only=True,
                optional=resource is resources.NETWORK_POLICIES,
            )
            for resource in OWNED_KINDS
        }

    def watch(  # noqa: PLR0913 - the parameters of an informer
        self,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T | None],
        changed: Callable[[T | None, T | None], None],
        *,
        label_selector: str = "",
        metadata_only: bool = False,
        optional: bool = False,
    ) -> ResourceCache[T]:
        """Watch another kind. Jobs are served even if an `optional` one is forbidden."""
        namespaces = self.namespaces if self.namespaces and resource.namespaced else (ALL_NAMESPACES,)
        informers = {
            namespace: Informer(
                self.client,
                resource,
                decode=decode,
                namespace=namespace or None,
                label_selector=label_selector,
                metadata_only=metadata_only,
                optional=optional,
                changed=changed,
            )
            for namespace in namespaces
        }
        self._informers += informers.values()
        return ResourceCache(informers)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.full_name}")

    async def synced(self) -> None:
        """Return when everything has been listed once."""
        for informer in self._informers:
            await informer.synced.wait()

    @property
    def priorities(self) -> dict[str, int]:
        """The value of each priority class."""
        return {item.name: item.value for item in self.priority_classes}

    def unsynced(self) -> list[str]:
        """Return the resources that have not been listed yet."""
        return [informer.resource.full_name for informer in self._informers if not informer.synced.is_set()]

    def refused(self) -> list[str]:
        """Return the resources that are forbidden or no longer exist."""
        return [informer.resource.full_name for informer in self._informers if informer.is_refused]

    def _job_changed(self, before: CachedJob | None, after: CachedJob | None) -> None:
        if before is None or after is None or after.job.spec is not before.job.spec:
            if before is not None:
                for name in claim_names(before.job):
                    _discard(self._claimants, (before.namespace, name), before.key)
            if after is not None:
                for name in claim_names(after.job):
                    self._claimants[(after.namespace, name)][after.key] = None
        # Only reason or message changed: do not requeue, or a server whose error text varies causes a hot loop.
        if before is None or after is None or not same_except_text(before.job, after.job):
            self._enqueue(item.key for item in (before, after) if item is not None)

    def _pod_changed(self, before: CachedPod | None, after: CachedPod | None) -> None:
        if before is not None and (after is None or after.job != before.job):
            _discard(self.pods_of, before.job, before.name)
        if after is not None:
            self.pods_of[after.job][after.name] = after
        if before is None or after is None or (before.observed, before.job_uid) != (after.observed, after.job_uid):
            self._enqueue(item.job for item in (before, after) if item is not None)

    def _command_changed(self, before: CachedCommand | None, after: CachedCommand | None) -> None:
        if before is not None and (after is None or after.job != before.job):
            _discard(self.commands_of, before.job, before.name)
        if after is not None:
            self.commands_of[after.job][after.name] = after
        self._enqueue(item.job for item in (before, after) if item is not None)

    def _owned_object_changed(self, kind: str) -> Callable[[CachedObject | None, CachedObject | None], None]:
        def changed(before: CachedObject | None, after: CachedObject | None) -> None:
            for item in (before, after):
                if item is not None and item.job is not None:
                    _discard(self.owned_objects_of, item.job, (kind, item.name))
            if after is not None and after.job is not None:
                self.owned_objects_of[after.job][(kind, after.name)] = after
            self._enqueue(item.job for item in (before, after) if item is not None)

        return changed

    def _claim_changed(self, before: CachedObject | None, after: CachedObject | None) -> None:
        """Enqueue the jobs that use a new or deleted claim: a claim is not always owned by its job."""
        if before is not None and after is not None:
            return
        claim = before or after
        for job in self._claimants.get((claim.namespace, claim.name), ()) if claim is not None else ():
            self.enqueue(job)

    def _enqueue(self, jobs: Iterable[JobKey | None]) -> None:
        for job in dict.fromkeys(jobs):
            if job is not None:
                self.enqueue(job)


def _discard(index: dict[Owner, dict[K, V]], owner: Owner, key: K) -> None:
    found = index.get(owner)
    if found is not None:
        found.pop(key, None)
        if not found:
            del index[owner]
