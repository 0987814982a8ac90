"""Objects of a cluster as its API server writes them in JSON: only the fields that Pumice reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.model.job import Manifest, Metadata
from pumice.model.quantity import Quantity
from pumice.model.units import read_time
from pumice.model.vocabulary import VOLCANO


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all parts: a field that is missing has its zero value, one that is not named is not read."""


class Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None

    @property
    def since(self) -> dt.datetime | None:
        return read_time(self.last_transition_time)


class Terminated(_Part, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerWaiting(_Part, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerRunning(_Part, frozen=True):
    started_at: str | None = None


class ContainerState(_Part, frozen=True):
    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Part, frozen=True):
    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(_Part, frozen=True):
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")


class PodDetails(_Part, frozen=True):
    metadata: Metadata = Metadata()
    spec: Manifest = {}
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == kind), None)

    @property
    def containers(self) -> tuple[ContainerStatus, ...]:
        return (*self.status.init_container_statuses, *self.status.container_statuses)


class ObjectReference(_Part, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class EventSeries(_Part, frozen=True):
    last_observed_time: str | None = None


class Event(_Part, frozen=True):
    """An event of the core API, `v1`."""

    metadata: Metadata = Metadata()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def begin(self) -> dt.datetime | None:
        return self._first(self.first_timestamp, self.event_time, self.metadata.creation_timestamp)

    @property
    def last_seen(self) -> dt.datetime | None:
        latest = self.series.last_observed_time if self.series is not None else None
        return self._first(latest, self.last_timestamp, self.event_time, self.metadata.creation_timestamp)

    @staticmethod
    def _first(*texts: str | None) -> dt.datetime | None:
        return next(filter(None, map(read_time, texts)), None)


class Taint(_Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """`nvidia.com/gpu=present:NoSchedule`, as kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class NodeSpec(_Part, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(_Part, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class Node(_Part, frozen=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def ready(self) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == "Ready"), None)

    @property
    def is_ready(self) -> bool:
        return self.ready is not None and self.ready.status == "True"


class ClaimSpec(_Part, frozen=True):
    storage_class_name: str | None = None


class ClaimStatus(_Part, frozen=True):
    phase: str = ""


class Claim(_Part, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


# Conditions of a PodGroup of Kubernetes itself: since 1.37, and in 1.36.
NATIVE_SCHEDULED: Final = ("PodGroupInitiallyScheduled", "PodGroupScheduled")


class PodGroupStatus(_Part, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class PodGroup(_Part, frozen=True):
    """A PodGroup of any gang provider; `api_version` says whose it is."""

    metadata: Metadata
    api_version: str = ""
    spec: dict[str, Any] = {}
    status: PodGroupStatus = PodGroupStatus()

    @property
    def is_volcano(self) -> bool:
        return self.api_version == VOLCANO.api_version


class QueueSpec(_Part, frozen=True):
    capability: dict[str, str] = {}
    dequeue_strategy: str = ""


class QueueStatus(_Part, frozen=True):
    state: str = ""
    allocated: dict[str, str] = {}


class Queue(_Part, frozen=True):
    """A Queue of Volcano."""

    metadata: Metadata
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def state(self) -> str:
        """Volcano's controller writes it a moment after the Queue was created."""
        return self.status.state or OPEN


OPEN: Final = "Open"
ROOT_QUEUE: Final = "root"  # the queue above all others, which takes no Job


class QuotaSpec(_Part, frozen=True):
    hard: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(_Part, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class Quota(_Part, frozen=True):
    """A ResourceQuota."""

    metadata: Metadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()

    @property
    def is_for_all_pods(self) -> bool:
        return not self.spec.scopes and not self.spec.scope_selector


class PriorityClass(_Part, frozen=True):
    metadata: Metadata
    value: int = 0


class LeaseSpec(_Part, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int = 15
    renew_time: str | None = None


class Lease(_Part, frozen=True):
    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


def quantities(texts: Mapping[str, object]) -> dict[str, Quantity]:
    """Return the amounts of a resource list; ill-formed ones count as absent."""
    amounts = {}
    for name, text in texts.items():
        try:
            amounts[name] = Quantity.parse(text)
        except ValueError:
            continue
    return amounts
