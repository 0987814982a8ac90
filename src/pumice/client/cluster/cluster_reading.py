"""Reads what the diagnosis of a Job asks for, layer by layer, each as far as this user may read it.

What no layer asks for in the state of the Job is not read: a large cluster has many nodes and pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from pumice.client import backend
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import JobFacts, needed_spec, read_spec
from pumice.client.values import Status
from pumice.diagnosis.cluster.objects import Claim, Event, Lease, Node, PodGroup, PriorityClass, Queue
from pumice.diagnosis.cluster.reading import ClusterReading, PodReading, Unread, known, requests_by_node
from pumice.diagnosis.cluster.volume_layer import claims_of
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.cache.decode_pods import decode_owned
from pumice.engines.kubernetes.install import names
from pumice.model.job import Job
from pumice.model.quantity import Quantity
from pumice.model.snapshot import PodPhase
from pumice.model.vocabulary import GANG_PROVIDERS, VOLCANO, VOLCANO_SCHEDULER
from pumice.reconcile.gangs import group_names
from pumice.store.run_errors import Denied, RunError

T = TypeVar("T")

_NO_RIGHT: Final = Unread("you have no right to list them")
_SLOW: Final = 15.0  # seconds for the pods of all namespaces
_LATE: Final = Unread(f"the API server needs more than {_SLOW:g} s for them")
# Events that say only that all goes well. A namespace has several of them for each pod.
_QUIET: Final = (
    "Scheduled",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "Killing",
    "SuccessfulCreate",
    "SuccessfulDelete",
    "Completed",
)
_FIFO: Final = "fifo"
# The Leases of controllers that may serve Jobs, and their namespaces.
LEASES_OF_CONTROLLERS: Final[Mapping[str, tuple[str, str]]] = {
    "Pumice": (names.LEASE_NAMESPACE, names.LEASE),
    "Volcano": ("volcano-system", "vc-controller-manager"),
}
_NOT_SHOWN: Final = ("ephemeral-storage", "hugepages-")
_NO_PODS: Final = "pods of all namespaces are not readable for you, so what is free is not known"
_FEW_GROUPS: Final = 8  # PodGroups that are read one by one


async def read_cluster(connection: Connection, facts: JobFacts, status: Status) -> ClusterReading:
    """Return all that the layers need. `facts` must have the details of its pods."""
    reader = _Reader(connection, facts.job)
    unread = dict.fromkeys(facts.unreadable, _NO_RIGHT)
    pods = tuple(PodReading(each.observed, each.details) for each in facts.pods)
    reading = ClusterReading(
        job=facts.job,
        pods=unread.get("pods", pods),
        outcome=status.outcome,
        verdict=status.verdict if status.is_finished else None,
        options=connection.flags(facts.job.namespace),
    )
    offered, events, claims, leases = await asyncio.gather(
        reader.offered(), reader.events(), reader.claims(reading), reader.leases()
    )
    has_volcano = resources.VOLCANO_QUEUES.identity in offered
    reading = msgspec.structs.replace(
        reading, events=events, claims=claims, leases=leases, has_volcano=has_volcano, pod_groups=()
    )
    reading = msgspec.structs.replace(reading, pod_groups=await reader.pod_groups(offered))
    queues, nodes, usage = await asyncio.gather(reader.queues(reading), reader.nodes(reading), reader.usage(reading))
    reading = msgspec.structs.replace(reading, queues=queues, nodes=nodes, usage=usage)
    return await reader.with_waiting_groups(reading)


@dataclass(frozen=True, slots=True)
class _Reader:
    connection: Connection
    job: Job

    async def _all(
        self, resource: resources.Resource, kind: type[T], namespace: str = "", *, fields: str = ""
    ) -> tuple[T, ...] | Unread:
        return _decoded(kind, await _attempt(self.connection.all(resource, namespace, fields=fields)))

    async def _some(
        self, resource: resources.Resource, kind: type[T], wanted: Iterable[tuple[str, str]]
    ) -> tuple[T, ...] | Unread:
        """Return the objects of these namespaces and names that exist."""
        return _decoded(kind, await self._raw(resource, wanted))

    async def _raw(self, resource: resources.Resource, wanted: Iterable[tuple[str, str]]) -> list[bytes] | Unread:
        found = await _attempt(asyncio.gather(*(self.connection.get(resource, *each) for each in wanted)))
        return found if isinstance(found, Unread) else [each for each in found if each is not None]

    async def offered(self) -> frozenset[str]:
        """Return the resources that the cluster serves."""
        try:
            return await discover(self.connection.client)
        except ApiError:
            return frozenset({resources.VOLCANO_POD_GROUPS.identity, resources.VOLCANO_QUEUES.identity})

    async def events(self) -> tuple[Event, ...] | Unread:
        fields = ",".join(f"reason!={reason}" for reason in _QUIET)
        return await self._all(resources.CORE_EVENTS, Event, self.job.namespace, fields=fields)

    async def claims(self, reading: ClusterReading) -> tuple[Claim, ...] | Unread:
        named = self.job.spec.volumes or any(claims_of(pod) for pod in known(reading.pods))
        return await self._all(resources.CLAIMS, Claim, self.job.namespace) if named else ()

    async def leases(self) -> tuple[Lease, ...] | Unread:
        if self.job.status.state.phase:
            return ()
        own = (names.LEASE_NAMESPACE, f"{names.LEASE}-{self.job.namespace}")
        return await self._some(resources.LEASES, Lease, (*LEASES_OF_CONTROLLERS.values(), own))

    async def pod_groups(self, offered: frozenset[str]) -> tuple[PodGroup, ...] | Unread:
        """Return the PodGroups of the Job, whichever gang provider serves it."""
        parts = await asyncio.gather(*(self._groups_of(name, offered) for name in resources.POD_GROUPS))
        unread = next((part for part in parts if isinstance(part, Unread)), None)
        groups = [group for part in parts for group in known(part)]
        return tuple(groups) if groups or unread is None else unread

    async def _groups_of(self, provider: str, offered: frozenset[str]) -> tuple[PodGroup, ...] | Unread:
        resource = next((each for each in resources.POD_GROUPS[provider] if each.identity in offered), None)
        if resource is None:
            return ()
        wanted = group_names(self.job, GANG_PROVIDERS[provider])
        if provider == VOLCANO.name:
            # Older versions named it after the Job alone.
            wanted = [*wanted, self.job.name]
        found: Sequence[bytes | msgspec.Raw] | Unread
        if len(wanted) > _FEW_GROUPS:
            found = await _attempt(self.connection.all(resource, self.job.namespace))
        else:
            found = await self._raw(resource, [(self.job.namespace, name) for name in wanted])
        if isinstance(found, Unread):
            return found
        owned = ((each, decode_owned(each)) for each in found)
        of_job = [each for each, owner in owned if owner is not None and owner.job_uid == self.job.uid]
        groups = known(_decoded(PodGroup, of_job))
        return tuple(msgspec.structs.replace(each, api_version=resource.api_version) for each in groups)

    async def queues(self, reading: ClusterReading) -> tuple[Queue, ...] | Unread:
        groups = [each for each in known(reading.pod_groups) if each.is_volcano]
        is_held = groups[0].status.phase in ("", "Pending") if groups else not reading.attempt
        if not (reading.has_volcano and is_held and self.job.spec.scheduler_name in ("", VOLCANO_SCHEDULER)):
            return ()
        found = await self._all(resources.VOLCANO_QUEUES, Queue)
        if not isinstance(found, Unread):
            return found
        one = await self._some(resources.VOLCANO_QUEUES, Queue, [("", self.job.spec.queue or "default")])
        return found if isinstance(one, Unread) else one

    async def nodes(self, reading: ClusterReading) -> tuple[Node, ...] | Unread:
        pods = [pod.observed for pod in known(reading.pods)]
        is_needed = _has_unplaced(reading) or any(pod.is_unreachable or (pod.is_deleting and pod.node) for pod in pods)
        return await self._all(resources.NODES, Node) if is_needed else ()

    async def usage(self, reading: ClusterReading) -> Mapping[str, Mapping[str, Quantity]] | Unread:
        if not _has_unplaced(reading):
            return {}
        try:
            async with asyncio.timeout(_SLOW):
                return await _attempt(requested(self.connection))
        except TimeoutError:
            return _LATE

    async def with_waiting_groups(self, reading: ClusterReading) -> ClusterReading:
        """Add the PodGroups that wait in the same queue, if it starts them in order."""
        queue = next((each for each in known(reading.queues) if each.name == (self.job.spec.queue or "default")), None)
        if queue is None or queue.spec.dequeue_strategy != _FIFO:
            return reading
        groups, classes = await asyncio.gather(
            self._all(resources.VOLCANO_POD_GROUPS, PodGroup), self._all(resources.PRIORITY_CLASSES, PriorityClass)
        )
        waiting = groups
        if not isinstance(groups, Unread):
            waiting = tuple(
                each
                for each in groups
                if each.status.phase in ("", "Pending") and (each.spec.get("queue") or "default") == queue.name
            )
        priorities = {each.metadata.name: each.value for each in known(classes)}
        return msgspec.structs.replace(reading, waiting_groups=waiting, priorities=priorities)


async def requested(connection: Connection) -> Mapping[str, Mapping[str, Quantity]]:
    """Return what the pods of all namespaces request that have not ended, by node. Raises RunError."""
    fields = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
    async with aclosing(connection.each(resources.PODS, fields=fields)) as pods:
        specs = [needed_spec(read_spec(raw)) async for raw in pods]
    return requests_by_node((str(spec.get("nodeName") or ""), spec) for spec in specs)


async def nodes(connection: Connection) -> backend.NodeListing:
    """Raises Denied for a user who may not list nodes."""
    found = [msgspec.json.decode(raw, type=Node) for raw in await connection.all(resources.NODES)]
    warnings: list[str] = []
    used: Mapping[str, Mapping[str, Quantity]] | None = None
    try:
        used = await requested(connection)
    except Denied:
        warnings.append(_NO_PODS)
    return backend.NodeListing([_node(each, used) for each in sorted(found, key=lambda one: one.name)], warnings)


def _node(found: Node, used: Mapping[str, Mapping[str, Quantity]] | None) -> backend.Node:
    total = {
        name: Quantity.parse(text) for name, text in found.status.allocatable.items() if not name.startswith(_NOT_SHOWN)
    }
    free = None
    if used is not None:
        taken = used.get(found.name, {})
        free = {name: str(amount - taken.get(name, Quantity())) for name, amount in total.items()}
    return backend.Node(
        found.name,
        ready=found.is_ready,
        schedulable=not found.spec.unschedulable,
        total={name: str(amount) for name, amount in total.items()},
        free=free,
    )


async def _attempt(reading: Awaitable[T]) -> T | Unread:
    """Return what was read, or why it could not be read."""
    try:
        return await reading
    except Denied:
        return _NO_RIGHT
    except RunError as error:
        return Unread(str(error))


def _decoded(kind: type[T], found: Sequence[bytes | msgspec.Raw] | Unread) -> tuple[T, ...] | Unread:
    """Return the objects; one that some client wrote against its type says nothing."""
    if isinstance(found, Unread):
        return found
    decoder, objects = msgspec.json.Decoder(kind), list[T]()
    for raw in found:
        with suppress(msgspec.ValidationError):
            objects.append(decoder.decode(raw))
    return tuple(objects)


def _has_unplaced(reading: ClusterReading) -> bool:
    """Whether a pod of the Job waits for a node."""
    return any(
        pod.observed.phase is PodPhase.PENDING and not pod.details.spec.get("nodeName") for pod in reading.live_pods
    )
