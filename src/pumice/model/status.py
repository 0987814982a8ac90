"""The status of a Job, written by the controller and read by dashboards and clients."""

from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.model.units import is_number

# In controlledResources: the minAvailable that the job had at first, and below it that of each task. Where the spec has
# none, it has stood for all replicas, and it must not change with them.
MIN_AVAILABLE: Final = "pumice/min-available"


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all parts of a status."""


class JobState(_Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(_Part, frozen=True):
    status: str
    last_transition_time: str | None = None


class TaskState(_Part, frozen=True):
    phase: dict[str, int] = {}


class JobStatus(_Part, frozen=True):
    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = {}
    conditions: list[JobCondition] = []


def first_min_available(entries: Mapping[str, str]) -> dict[str, int]:
    """Read the recorded minAvailable by task; that of the job has an empty name."""
    found = {
        key.removeprefix(MIN_AVAILABLE).removeprefix("/"): text
        for key, text in entries.items()
        if key == MIN_AVAILABLE or key.startswith(f"{MIN_AVAILABLE}/")
    }
    return {task: int(text) for task, text in found.items() if is_number(text)}
