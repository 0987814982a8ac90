"""The fixed words of the Job API: phases, events, actions; and what starts the pods of a job together."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

GROUP_VERSION: Final = "batch.volcano.sh/v1alpha1"
KIND: Final = "Job"
# Metadata that an API server sets, or a run in its place.
SERVER_FIELDS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")


class Phase(StrEnum):
    PENDING = "Pending"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


class Event(StrEnum):
    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    JOB_UPDATED = "JobUpdated"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"


class Action(StrEnum):
    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"


COMMAND: Final = "Command"  # the reason of a Job that changes because of a Command object
# The reason of a Job that was stored without the webhook: its controller does nothing about it.
INVALID_JOB: Final = "InvalidJob"
SUSPENDED: Final = "Suspended"  # the reason of a Job, or of a run, that was suspended and can be resumed

# Events and actions that a policy may name; only the controller uses the others.
MAX_RETRY: Final = 3  # where a Job says nothing

POLICY_EVENTS: Final = (
    Event.ANY,
    Event.POD_FAILED,
    Event.POD_EVICTED,
    Event.POD_PENDING,
    Event.UNKNOWN,
    Event.TASK_COMPLETED,
    Event.TASK_FAILED,
    Event.JOB_UPDATED,
)
POLICY_ACTIONS: Final = (
    Action.ABORT_JOB,
    Action.RESTART_JOB,
    Action.RESTART_TASK,
    Action.RESTART_POD,
    Action.RESTART_PARTITION,
    Action.TERMINATE_JOB,
    Action.COMPLETE_JOB,
    Action.RESUME_JOB,
)

# Actions on the task, pod or partition that the event is about.
TARGETED_ACTIONS: Final = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
RESTARTS: Final = (Action.RESTART_JOB, *TARGETED_ACTIONS)
# Events about the whole job, without a pod.
EVENTS_WITHOUT_POD: Final = (Event.UNKNOWN, Event.JOB_UPDATED)

TOPOLOGY_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
NETWORK_TOPOLOGY_MODES: Final = ("hard", "soft")
DEPENDENCY_ITERATIONS: Final = ("any", "all")
DEPENDENCY_CONDITIONS: Final = ("Running", "Completed")

VOLCANO_SCHEDULER: Final = "volcano"
DEFAULT_SCHEDULER: Final = "default-scheduler"


class GangProvider(Struct, frozen=True):
    """What starts the pods of a job together on a cluster."""

    name: str
    api_version: str = ""  # of its PodGroups; empty: it has none
    scheduler: str = VOLCANO_SCHEDULER  # serves the pods that would otherwise go to Volcano's scheduler

    @property
    def has_groups(self) -> bool:
        """Whether a PodGroup decides when pods may be created."""
        return self.api_version != ""


VOLCANO: Final = GangProvider("volcano", "scheduling.volcano.sh/v1beta1")
NATIVE: Final = GangProvider("native", "scheduling.k8s.io/v1beta1", DEFAULT_SCHEDULER)
# The scheduler has the name that the coscheduling project's own installation gives it.
COSCHEDULING: Final = GangProvider("coscheduling", "scheduling.x-k8s.io/v1alpha1", "scheduler-plugins-scheduler")
NO_GANG: Final = GangProvider("none", scheduler=DEFAULT_SCHEDULER)

GANG_PROVIDERS: Final = {provider.name: provider for provider in (VOLCANO, NATIVE, COSCHEDULING, NO_GANG)}
