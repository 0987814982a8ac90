"""What the page shows of a run: frozen values. The endpoints below `/api` send them as JSON with camelCase keys.

Times are wall clock; `None` means that it has not happened, or that nothing was recorded. Text is as the job wrote it:
escape it.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Final

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all values."""


class PodState(StrEnum):
    WAITING = "waiting"  # no container has started
    INIT = "init"  # an init container runs
    RUNNING = "running"
    RESTARTING = "restarting"  # a container waits for its next start
    DONE = "done"
    FIRST = "first"  # the first that failed in its attempt
    FAILED = "failed"  # failed on its own
    FOLLOWED = "followed"  # failed because another pod did
    STOPPED = "stopped"  # ended because it was asked to


FAILED_STATES: Final = frozenset((PodState.FIRST, PodState.FAILED, PodState.FOLLOWED))


class Group(StrEnum):
    """The filters of the list, `?phase=`."""

    ALL = "all"
    ACTIVE = "active"  # it has its room and has not ended
    WAITING = "waiting"
    FAILED = "failed"
    SUSPENDED = "suspended"
    DONE = "done"  # ended, and did not fail


# --- the machine --------------------------------------------------------------------------------------------------


class Resources(Value, frozen=True):
    cpu: float = 0.0  # cores
    memory: int = 0  # bytes
    gpus: tuple[str, ...] = ()  # numbers of devices


class Reservation(Value, frozen=True):
    job: str  # NAME:N; empty for other programs
    uid: str
    resources: Resources


class Info(Value, frozen=True):
    scope: str  # `this machine`
    host: str
    version: str
    now: dt.datetime
    capacity: Resources
    reserved: tuple[Reservation, ...] = ()
    notices: tuple[str, ...] = ()  # about the store, such as a full disk


# --- why it waits -------------------------------------------------------------------------------------------------


class Holder(Value, frozen=True):
    job: str  # NAME:N, or the name of a program
    uid: str  # empty for a program
    amount: str  # for people
    until: dt.datetime | None = None
    because: str = ""  # of what `until` follows: `activeDeadlineSeconds`
    phase: str = ""


class Shortage(Value, frozen=True):
    """A resource that the run wants. Resources are for people: `96 GiB`."""

    resource: str
    wanted: str
    free: str
    capacity: str
    short: str = ""  # how much is missing; empty if there is enough
    held_by: tuple[Holder, ...] = ()


class Hint(Value, frozen=True):
    text: str
    command: str = ""


class QueueEntry(Value, frozen=True):
    """A run that holds room, or waits. `position` is None for one that holds it."""

    position: int | None
    job: str
    uid: str
    phase: str
    needs: str  # `8 GPUs, 16 CPUs, 64 GiB`
    until: dt.datetime | None = None
    is_this: bool = False


class Waiting(Value, frozen=True):
    code: str  # of `pumice why`
    text: str
    since: dt.datetime | None = None
    position: int | None = None  # from 1
    pods: int = 0  # that start together
    drains_at: dt.datetime | None = None
    behind: str = ""
    short: tuple[Shortage, ...] = ()
    hints: tuple[Hint, ...] = ()
    queue: tuple[QueueEntry, ...] = ()  # only in a job, not in the list


# --- jobs ---------------------------------------------------------------------------------------------------------


class TaskPods(Value, frozen=True):
    name: str
    total: int
    counts: dict[PodState, int] = msgspec.field(default_factory=dict)
    states: tuple[PodState, ...] = ()  # by index, up to 64 pods


class Attempt(Value, frozen=True):
    number: int
    outcome: str  # running, failed, completed, stopped, waiting
    start: dt.datetime
    end: dt.datetime | None = None
    first: str = ""  # the pod that failed first
    exit: str = ""  # how: `exit code 1`, `signal 9 (SIGKILL)`
    exit_code: int | None = None
    last_line: str = ""
    then: str = ""  # what a policy did


class LastLine(Value, frozen=True):
    pod: str
    task: str
    text: str
    stream: str = ""
    time: dt.datetime | None = None


class JobRow(Value, frozen=True):
    """A row of the list. `failed` counts failed pods; `text` is the sentence about it."""

    uid: str
    run: str  # NAME:N
    name: str
    number: int
    namespace: str
    file: str
    phase: str
    group: Group
    created: dt.datetime
    since: dt.datetime  # of the phase
    reason: str = ""
    message: str = ""
    plugins: tuple[str, ...] = ()
    queue: str = ""
    tasks: tuple[TaskPods, ...] = ()
    failed: int = 0
    attempt: int = 1
    attempts: tuple[Attempt, ...] = ()
    started: dt.datetime | None = None
    finished: dt.datetime | None = None
    ran: float | None = None  # seconds
    waited: float | None = None  # seconds before it got its room
    text: str = ""
    last_line: LastLine | None = None
    waiting: Waiting | None = None
    note: str = ""  # of the user
    mode: str = ""  # foreground or detached
    host: str = ""
    priority: int = 0
    exit_code: int | None = None
    damaged: str = ""  # what cannot be read of it

    @property
    def is_active(self) -> bool:
        return self.group is Group.ACTIVE


class Listing(Value, frozen=True):
    """`GET /api/jobs`. `counts` has all runs by group; `total` those that match; `after` continues the list.

    `before` matching runs are on the pages before; `others` match, but are not in the group that was asked for.
    """

    items: tuple[JobRow, ...]
    counts: dict[Group, int]
    total: int
    phase: Group = Group.ALL
    q: str = ""
    after: str = ""
    before: int = 0
    others: int = 0


class Follower(Value, frozen=True):
    pod: str
    exit: str
    delay: float | None  # seconds after the first; negative if it ended before


class PolicyPosition(Value, frozen=True):
    text: str  # `PodFailed -> RestartJob`
    path: str  # `spec.policies[1]`
    file: str = ""
    line: int | None = None


class Verdict(Value, frozen=True):
    """Why the run ended, or what failed so far. `lines` is the text that `pumice run` prints."""

    text: str  # the first line
    pod: str = ""  # that failed first; empty if no pod did
    container: str = ""
    exit: str = ""  # `exit code 1`
    exit_code: int | None = None
    signal: int = 0
    reason: str = ""
    time: dt.datetime | None = None
    after: float | None = None  # seconds from the pod's creation
    cause: str = ""  # where the program could print nothing, such as OOMKilled
    last_line: str = ""
    followers: tuple[Follower, ...] = ()
    before: str = ""  # whether earlier attempts failed the same way
    policy: PolicyPosition | None = None
    next: str = ""  # a command
    lines: tuple[str, ...] = ()


class RetryBudget(Value, frozen=True):
    spent: int
    limit: int
    line: int | None = None  # of maxRetry in the file


class Action(Value, frozen=True):
    name: str  # suspend, resume, restart, again, stop, delete
    label: str
    allowed: bool
    why_not: str = ""


class Job(JobRow, frozen=True):
    """`GET /api/jobs/{uid}`. `actions` has the four buttons, in their order."""

    verdict: Verdict | None = None
    budget: RetryBudget | None = None
    actions: tuple[Action, ...] = ()
    min_available: int = 0
    min_available_line: int | None = None
    min_success: int | None = None
    min_success_line: int | None = None
    deadline: dt.datetime | None = None
    deadline_line: int | None = None
    events: int = 0
    fired: int = 0  # policies
    directory: str = ""
    version: str = ""
    seq: int = 0  # of the newest entry of the journal that is included: `/api/stream?last=SEQ.LINES.SAMPLES`
