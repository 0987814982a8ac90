"""Everything known about a job at one moment: what an engine observes and `decide` reads. Frozen, plain values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from pumice.model.job import Job, Manifest, Metadata
from pumice.model.vocabulary import VOLCANO, GangProvider

COMMAND_GROUP_VERSION: Final = "bus.volcano.sh/v1alpha1"
COMMAND_KIND: Final = "Command"


class JobKey(Struct, frozen=True, order=True):
    """Which job; all that a queue ever holds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class CommandTarget(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Command(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How `vcctl job suspend` and dashboards ask for an action on a Job."""

    api_version: str = COMMAND_GROUP_VERSION
    kind: str = COMMAND_KIND
    metadata: Metadata = Metadata()
    action: str = ""
    target: CommandTarget | None = None
    reason: str = ""
    message: str = ""


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


# The reason of a pod that its kubelet evicted.
EVICTED: Final = "Evicted"
# Reasons for which a container waits.
BACK_OFF: Final = "CrashLoopBackOff"
IMAGE_REASONS: Final = frozenset(
    ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
)
FINISHED_PODS = frozenset((PodPhase.SUCCEEDED, PodPhase.FAILED))


class ContainerEnd(Struct, frozen=True):
    """How a container ended."""

    container: str
    exit_code: int
    reason: str = ""  # such as OOMKilled
    signal: int = 0
    finished_at: dt.datetime | None = None
    last_line: str = ""


class Waiting(Struct, frozen=True):
    """Why a pod does not run: what is said of its first waiting container, or by its scheduler."""

    reason: str  # such as ImagePullBackOff or Unschedulable
    message: str = ""


class ObservedPod(Struct, frozen=True):
    name: str
    uid: str
    task: str
    index: int
    version: int
    retry: int  # the job's retryCount when the pod was made
    phase: PodPhase
    created_at: dt.datetime
    deleted_at: dt.datetime | None = None  # when its grace ends; None unless it is being deleted
    ready: bool = False
    restarts: int = 0
    reason: str = ""  # the pod's own, such as Evicted
    message: str = ""  # the pod's own
    ends: tuple[ContainerEnd, ...] = ()
    waiting: Waiting | None = None
    changed_at: dt.datetime | None = None  # when one of its containers last started or ended, unless all went well
    node: str = ""  # of a pod that is being deleted or that is unreachable
    is_unreachable: bool = False  # the cluster has lost contact with its node
    # Its containers have ended for good, and its phase will follow. Which phase is not certain yet: a pod whose
    # containers ended with 0 fails if its kubelet has evicted it.
    has_ended: bool = False

    @property
    def short_name(self) -> str:
        return f"{self.task}-{self.index}"

    @property
    def is_deleting(self) -> bool:
        return self.deleted_at is not None

    @property
    def is_finished(self) -> bool:
        return self.has_ended or self.phase in FINISHED_PODS

    @property
    def has_succeeded(self) -> bool:
        """Whether it was done. One that ends with code 0 because it was asked to end was not."""
        return self.phase is PodPhase.SUCCEEDED and not self.is_deleting

    @property
    def is_evicted(self) -> bool:
        """Whether the kubelet ended it for lack of a resource. An eviction through the API deletes a pod instead."""
        return self.phase is PodPhase.FAILED and self.reason == EVICTED

    @property
    def is_live(self) -> bool:
        """Running or about to, and not on its way out."""
        return not self.is_finished and not self.is_deleting

    @property
    def first_failure(self) -> ContainerEnd | None:
        """The container that failed first, init containers included."""
        failed = [end for end in self.ends if end.exit_code != 0]
        latest = dt.datetime.max.replace(tzinfo=dt.UTC)
        return min(failed, key=lambda end: end.finished_at or latest, default=None)

    @property
    def deciding_end(self) -> ContainerEnd | None:
        """That of the container which decided how the pod ended: its first failure, else its last end."""
        earliest = dt.datetime.min.replace(tzinfo=dt.UTC)
        return self.first_failure or max(self.ends, key=lambda end: end.finished_at or earliest, default=None)

    @property
    def ended_at(self) -> dt.datetime | None:
        """When the pod failed or was done: its first failure, else its last end."""
        failure = self.first_failure
        if failure is not None:
            return failure.finished_at
        return max((end.finished_at for end in self.ends if end.finished_at), default=None)


class ObservedGroup(Struct, frozen=True):
    """The PodGroups of a job, by name, and what their scheduler says of them."""

    manifests: Mapping[str, Manifest]
    phase: str = ""
    message: str = ""  # why it is not scheduled yet

    @property
    def admits_pods(self) -> bool:
        """A gang scheduler lets pods be made once it has put the group into its queue."""
        return self.phase not in ("", "Pending")


class Failure(Struct, frozen=True):
    """Something that an engine could not do when it was last asked."""

    reason: str
    message: str
    name: str = ""  # of the object that it could not create or update


class Snapshot(Struct, frozen=True):
    job: Job
    pods: tuple[ObservedPod, ...] = ()
    group: ObservedGroup | None = None
    owned_objects: Mapping[tuple[str, str], Manifest] = msgspec.field(default_factory=dict)  # by kind and name
    claims: frozenset[str] = frozenset()  # those that exist, of all that the job names
    commands: tuple[Command, ...] = ()
    failures: tuple[Failure, ...] = ()
    errors: tuple[str, ...] = ()  # what is wrong with a job that was let in all the same
    priorities: Mapping[str, int] = msgspec.field(default_factory=dict)  # of priority classes
    gang: GangProvider = VOLCANO
    records_min_available: bool = False  # whether the spec may lack what its defaults were at first
