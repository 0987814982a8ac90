"""The status of a Job, written by the controller and read by dashboards and clients."""

from __future__ import annotations

import msgspec


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
