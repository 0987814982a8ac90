"""What is known of the cluster: one informer a kind and namespace, and an index from each job to what belongs to it.

Whatever changes about a job, here it becomes its key, and nothing more: what to do about it is decided elsewhere, by
looking at everything anew.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.cache.decode_jobs import (
    CachedCommand,
    CachedJob,
    as_it_is,
    decode_command,
    decode_job,
    same_except_text,
    with_known_spec,
)
from pumice.engines.kubernetes.cache.decode_pods import (
    CachedObject,
    CachedPod,
    CachedPriorityClass,
    decode_object,
    decode_owned,
    decode_pod,
    decode_priority,
)
from pumice.engines.kubernetes.cache.informer import Informer
from pumice.engines.kubernetes.cache.store import T
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.objects import claim_names
from pumice.model.shape import Schema
from pumice.model.snapshot import JobKey

# Objects beside the pods whose content is compared with what it should be.
OWNED_KINDS = (resources.SERVICES, resources.CONFIG_MAPS, resources.NETWORK_POLICIES)


ALL_NAMESPACES = ""


class Runs(Protocol):
    """An informer of whatever kind."""

    synced: asyncio.Event

    @property
    def is_refused(self) -> bool: ...

    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ResourceCache(Generic[T]):
    """All objects of one kind, in every namespace that is served."""

    informers: Mapping[str, Informer[T]]  # by namespace; all of them under the empty name

    def get(self, namespace: str, name: str) -> T | None:
        informer = self._of(namespace)
        return informer.items.get((namespace, name)) if informer is not None else None

    def __iter__(self) -> Iterator[T]:
        for informer in self.informers.values():
            yield from informer.items.values()

    def __len__(self) -> int:
        return sum(len(informer.items) for informer in self.informers.values())

    def put(self, seen: T) -> None:
        """Take note of what we wrote ourselves, before the watch tells it."""
        informer = self._of(seen.namespace)
        if informer is not None:
            informer.put(seen)

    def removed(self, seen: T) -> None:
        informer = self._of(seen.namespace)
        if informer is not None:
            informer.removed(seen.uid)

    def _of(self, namespace: str) -> Informer[T] | None:
        return self.informers.get(namespace) or self.informers.get(ALL_NAMESPACES)


@dataclass(slots=True)
class ClusterCache:
    client: Client
    kubernetes: Schema
    namespaces: Sequence[str]  # empty: all
    enqueue: Callable[[JobKey], None]
    completed: Callable[[Job], Job] = as_it_is  # a job with the defaults that the webhook would have given it
    jobs: ResourceCache[CachedJob] = field(init=False)
    pods: ResourceCache[CachedPod] = field(init=False)
    commands: ResourceCache[CachedCommand] = field(init=False)
    claims: ResourceCache[CachedObject] = field(init=False)
    priority_classes: ResourceCache[CachedPriorityClass] = field(init=False)
    owned_objects: dict[str, ResourceCache[CachedObject]] = field(init=False)
    pods_of: dict[JobKey, dict[str, CachedPod]] = field(default_factory=lambda: defaultdict(dict))
    commands_of: dict[JobKey, dict[str, CachedCommand]] = field(default_factory=lambda: defaultdict(dict))
    owned_objects_of: dict[JobKey, dict[tuple[str, str], CachedObject]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    # Who names which claim, by namespace and name of the claim.
    _claimants: dict[tuple[str, str], dict[JobKey, None]] = field(default_factory=dict)
    _running: list[tuple[str, Runs]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known: dict[tuple[str, str], CachedJob] = {}

        def a_job(raw: msgspec.Raw) -> CachedJob:
            seen = decode_job(raw, self.kubernetes)
            place = (seen.namespace, seen.name)
            known[place] = with_known_spec(seen, known.get(place), self.completed)
            return known[place]

        def job_changed(before: CachedJob | None, after: CachedJob | None) -> None:
            if after is None and before is not None:
                known.pop((before.namespace, before.name), None)
            if before is not None and (after is None or after.job.spec is not before.job.spec):
                for name in claim_names(before.job):
                    _take_out(self._claimants, (before.namespace, name), before.key)
            if after is not None and (before is None or after.job.spec is not before.job.spec):
                for name in claim_names(after.job):
                    self._claimants.setdefault((after.namespace, name), {})[after.key] = None
            # Only reason or message changed: do not requeue, or a server whose error text varies causes a hot loop.
            if before is None or after is None or not same_except_text(before.job, after.job):
                self._touch(before, after, lambda seen: seen.key)

        self.jobs = self.watch(resources.JOBS, a_job, job_changed)
        self.pods = self.watch(resources.PODS, decode_pod, self._pod_changed, label_selector=keys.JOB_NAME)
        self.commands = self.watch(resources.COMMANDS, decode_command, self._command_changed)
        self.claims = self.watch(resources.CLAIMS, decode_object, self._claim_changed, metadata_only=True)
        self.priority_classes = self.watch(resources.PRIORITY_CLASSES, decode_priority, _nobody_minds, optional=True)
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

    def watch(  # noqa: PLR0913 - what an informer has
        self,
        resource: Resource,
        decode: Callable[[msgspec.Raw], T | None],
        changed: Callable[[T | None, T | None], None],
        *,
        label_selector: str = "",
        metadata_only: bool = False,
        optional: bool = False,
    ) -> ResourceCache[T]:
        """Watch one more kind; one that is `optional` may be forbidden to us, and jobs are served all the same."""
        places = self.namespaces if self.namespaces and resource.namespaced else (ALL_NAMESPACES,)
        informers = {
            place: Informer(
                self.client,
                resource,
                decode=decode,
                namespace=place or None,
                label_selector=label_selector,
                metadata_only=metadata_only,
                optional=optional,
                changed=changed,
            )
            for place in places
        }
        self._running += [(resource.full_name, informer) for informer in informers.values()]
        return ResourceCache(informers)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, informer in self._running:
                tasks.create_task(informer.run(), name=f"watch {name}")

    async def synced(self) -> None:
        """Returns when everything has been listed once."""
        for _, informer in self._running:
            await informer.synced.wait()

    @property
    def priorities(self) -> dict[str, int]:
        """What each priority class is worth."""
        return {seen.name: seen.value for seen in self.priority_classes}

    def unsynced(self) -> list[str]:
        """What has not been listed yet."""
        return [name for name, informer in self._running if not informer.synced.is_set()]

    def refused(self) -> list[str]:
        """What we may not watch any more, or what is not there any more."""
        return [name for name, informer in self._running if informer.is_refused]

    def _pod_changed(self, before: CachedPod | None, after: CachedPod | None) -> None:
        if before is not None and (after is None or after.job != before.job):
            _take_out(self.pods_of, before.job, before.name)
        if after is not None:
            self.pods_of[after.job][after.name] = after
        if before is None or after is None or (before.observed, before.job_uid) != (after.observed, after.job_uid):
            self._touch(before, after, lambda seen: seen.job)

    def _command_changed(self, before: CachedCommand | None, after: CachedCommand | None) -> None:
        if before is not None and (after is None or after.job != before.job):
            _take_out(self.commands_of, before.job, before.name)
        if after is not None:
            self.commands_of[after.job][after.name] = after
        self._touch(before, after, lambda seen: seen.job)

    def _owned_object_changed(self, kind: str) -> Callable[[CachedObject | None, CachedObject | None], None]:
        def changed(before: CachedObject | None, after: CachedObject | None) -> None:
            for seen in (before, after):
                if seen is not None and seen.job is not None:
                    _take_out(self.owned_objects_of, seen.job, (kind, seen.name))
                    self.enqueue(seen.job)
            if after is not None and after.job is not None:
                self.owned_objects_of[after.job][(kind, after.name)] = after

        return changed

    def _claim_changed(self, before: CachedObject | None, after: CachedObject | None) -> None:
        """A claim that somebody else makes is not owned by the job that waits for it."""
        if before is not None and after is not None:
            return
        seen = before or after
        for waiting in self._claimants.get((seen.namespace, seen.name), ()) if seen is not None else ():
            self.enqueue(waiting)

    def _touch(self, before: T | None, after: T | None, key: Callable[[T], JobKey]) -> None:
        for seen in (before, after):
            if seen is not None:
                self.enqueue(key(seen))


def _nobody_minds(_before: object, _after: object) -> None:
    """It is looked up when a job is looked at."""


Owner = TypeVar("Owner")
K = TypeVar("K")
V = TypeVar("V")


def _take_out(index: dict[Owner, dict[K, V]], owner: Owner, name: K) -> None:
    found = index.get(owner)
    if found is not None:
        found.pop(name, None)
        if not found:
            del index[owner]
