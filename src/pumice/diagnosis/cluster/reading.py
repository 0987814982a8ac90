"""The input of a diagnosis: everything that was read of a cluster about one Job, and what could not be read.

And what a layer makes of it: the cause of a wait, in a sentence, with its evidence and what would help.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from pumice.diagnosis.cluster.objects import Claim, Event, Lease, Node, PodDetails, PodGroup, Queue
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.verdict import Verdict
from pumice.diagnosis.why import EvidenceLine, Hint, Shortage, WhyCode
from pumice.model.job import Job, Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import Usage, pod_usage, sum_usage
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.units import EPOCH, amount_text, read_time

T = TypeVar("T")

_PREFIXES: Final = ("requests.", "limits.")
# What a message calls the fields of a reading.
_NAMES: Final = {
    "pods": "pods",
    "events": "events",
    "pod_groups": "PodGroups",
    "queues": "Queues",
    "waiting_groups": "PodGroups of other namespaces",
    "claims": "PersistentVolumeClaims",
    "nodes": "nodes",
    "usage": "pods of all namespaces",
    "leases": "Leases of controllers",
}


class Unread(msgspec.Struct, frozen=True):
    """Something that could not be read; `reason` is a sentence, such as `you have no right to list nodes`."""

    reason: str


class PodReading(msgspec.Struct, frozen=True):
    """A pod of the Job: what the engine makes of it, and what only a diagnosis reads."""

    observed: ObservedPod
    details: PodDetails = PodDetails()

    @property
    def name(self) -> str:
        return self.observed.name

    @property
    def short_name(self) -> str:
        return self.observed.short_name

    @property
    def said(self) -> str:
        """What it waits for, as its scheduler or its kubelet says it."""
        return self.observed.waiting.message if self.observed.waiting is not None else ""


class ClusterReading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of a cluster about one Job. A field that the user may not read is an `Unread`.

    A list that was read, and is empty, says that there is none: an empty `queues` means that the queue of the Job does
    not exist. So whatever was not asked for is an `Unread`, too. Times are compared with the `now` of the diagnosis,
    which should come from the server (`Date` of its answer), because its objects have its times.
    """

    job: Job  # with its status
    # Of the Job, by its ownerReference: also those that are being deleted, or that have ended.
    pods: tuple[PodReading, ...] | Unread = ()
    # Those whose involvedObject is the Job, one of its pods, PodGroups or claims.
    events: tuple[Event, ...] | Unread = ()
    # Of the Job, of whichever gang provider serves it. Empty where there is no gang provider.
    pod_groups: tuple[PodGroup, ...] | Unread = ()
    has_volcano: bool = True  # the cluster serves Volcano's Queues and PodGroups
    # At least that of the Job, if it exists; all of them, where the user may list them: hints name the others.
    queues: tuple[Queue, ...] | Unread = ()
    # Volcano's PodGroups in phase Pending of the Job's queue, in all namespaces, its own among them. Needed only if the
    # dequeueStrategy of the queue is fifo.
    waiting_groups: tuple[PodGroup, ...] | Unread = ()
    priorities: Mapping[str, int] = msgspec.field(default_factory=dict)  # of PriorityClasses; empty if they are unread
    # All of the namespace, or at least those that the Job and its pods name.
    claims: tuple[Claim, ...] | Unread = ()
    nodes: tuple[Node, ...] | Unread = ()
    # By node, what the pods on it request: `requests_by_node`. Needs the pods of all namespaces.
    usage: Mapping[str, Mapping[str, Quantity]] | Unread = msgspec.field(default_factory=dict)
    # Of the controllers that may serve Jobs: Pumice's (`pumice-controller`, and those of namespaces) and Volcano's.
    leases: tuple[Lease, ...] | Unread = ()
    outcome: Outcome
    verdict: Verdict | None = None  # of a Job that has ended
    options: str = ""  # of the commands in hints, such as `--on prod -n ml`

    @property
    def attempt(self) -> tuple[PodReading, ...]:
        """The pods of this attempt that are not on their way out, in the order of the tasks."""
        order = {task: position for position, task in enumerate(self.job.task_names)}
        current = [
            pod
            for pod in known(self.pods)
            if pod.observed.version == self.job.status.version and not pod.observed.is_deleting
        ]
        return tuple(sorted(current, key=lambda pod: (order.get(pod.observed.task, len(order)), pod.observed.index)))

    @property
    def live_pods(self) -> tuple[PodReading, ...]:
        return tuple(pod for pod in self.attempt if pod.observed.is_live)

    @property
    def lacks_pods(self) -> bool:
        """Whether a pod of this attempt does not exist, or may not: the pods are unread."""
        return isinstance(self.pods, Unread) or len(self.attempt) < self.job.total_replicas

    @property
    def unread(self) -> dict[str, Unread]:
        """What could not be read, by what a message calls it."""
        values = {name: getattr(self, field) for field, name in _NAMES.items()}
        return {name: value for name, value in values.items() if isinstance(value, Unread)}

    def events_of(self, kind: str, names: Iterable[tuple[str, str]], *reasons: str) -> list[Event]:
        """Return the events of objects, by name and uid, with one of these reasons, the newest first.

        A pod that was made again has the name of the one before; an event without a uid counts for both.
        """
        wanted = dict(names)
        matching = [
            event
            for event in known(self.events)
            if event.involved_object.kind == kind
            and event.reason in reasons
            and event.involved_object.name in wanted
            and event.involved_object.uid in ("", wanted[event.involved_object.name])
        ]
        return sorted(matching, key=lambda event: event.last_seen or EPOCH, reverse=True)

    def events_of_pods(self, pods: Iterable[PodReading], *reasons: str) -> list[Event]:
        return self.events_of("Pod", ((pod.name, pod.observed.uid) for pod in pods), *reasons)

    def count(self, *phases: PodPhase) -> int:
        """Return how many pods of this attempt are in these phases; from the status, if the pods are unread."""
        if not isinstance(self.pods, Unread):
            return sum(1 for pod in self.attempt if pod.observed.phase in phases)
        status = self.job.status
        counts = {PodPhase.RUNNING: status.running, PodPhase.SUCCEEDED: status.succeeded}
        return sum(counts.get(phase, 0) for phase in phases)

    @property
    def running(self) -> int:
        """Return how many pods run: not those whose containers wait to start again, nor those on lost nodes."""
        halted = [pod for pod in self.attempt if pod.observed.waiting is not None or pod.observed.is_unreachable]
        return self.count(PodPhase.RUNNING) - sum(1 for pod in halted if pod.observed.phase is PodPhase.RUNNING)

    @property
    def created(self) -> dt.datetime:
        return read_time(self.job.metadata.creation_timestamp) or EPOCH

    def command(self, text: str) -> str:
        """Return a command of a hint with the options that lead to this cluster."""
        return f"{text} {self.options}".rstrip()


def known(values: tuple[T, ...] | Unread) -> tuple[T, ...]:
    """Return what was read; nothing if it could not be read."""
    return () if isinstance(values, Unread) else values


def requests_by_node(pods: Iterable[tuple[str, Manifest]]) -> dict[str, Usage]:
    """Sum up what pods request, by node: of every pod that has a node and has not ended, its node and its spec."""
    specs: dict[str, list[tuple[Usage, int]]] = {}
    for node, spec in pods:
        specs.setdefault(node, []).append((pod_usage(spec), 1))
    return {node: sum_usage(usages) for node, usages in specs.items()}


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    code: WhyCode
    message: str
    since: dt.datetime | None = None
    evidence: tuple[EvidenceLine, ...] = ()  # the most telling first
    hints: tuple[Hint, ...] = ()
    short: tuple[Shortage, ...] = ()
    behind: str | None = None  # the PodGroup that is ahead
    task: str = ""  # whose pods it is about, unless it is about the Job


def event_line(event: Event) -> EvidenceLine:
    """Return an event as evidence: its object, its reason and its text."""
    about = event.involved_object
    text = in_words("", event.message)
    return EvidenceLine(kind=about.kind, name=about.name, field=f"event {event.reason}", since=event.begin, text=text)


def pod_line(pod: PodReading, field: str, text: str, since: dt.datetime | None = None) -> EvidenceLine:
    return EvidenceLine(kind="Pod", name=pod.name, field=field, since=since, text=in_words("", text))


def shortage(resource: str, wanted: Quantity, free: Quantity, capacity: Quantity) -> Shortage:
    """Return a shortage; what is overdrawn has nothing free."""
    left = free if not free.is_negative else Quantity()
    return Shortage(resource=resource, wanted=str(wanted), free=str(left), capacity=str(capacity))


def amount(resource: str, quantity: Quantity | str) -> str:
    """Format an amount of a resource that a quota names: `4 GiB` of `requests.memory`."""
    for prefix in _PREFIXES:
        resource = resource.removeprefix(prefix)
    return amount_text(resource, quantity)


def shortage_text(short: Shortage) -> str:
    """`requests.nvidia.com/gpu: 8 wanted, 4 of 8 free, 4 short`."""
    missing = Quantity.parse(short.wanted) - Quantity.parse(short.free)
    wanted, free, capacity, lack = (
        amount(short.resource, each) for each in (short.wanted, short.free, short.capacity, missing)
    )
    return f"{short.resource}: {wanted} wanted, {free} of {capacity} free, {lack} short"
