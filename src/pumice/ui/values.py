"""What the page shows of a run: frozen values. The endpoints below `/api` send them as JSON with camelCase keys.

Times are wall clock; `None` means that it has not happened, or that nothing was recorded. Text is as the job wrote it:
escape it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from pumice.diagnosis.hang import Hang
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import Verdict
from pumice.model.text import shown_words
from pumice.store.run_record import PublishedPort


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
    ACTIVE = "active"  # it has its resources and has not ended
    WAITING = "waiting"
    FAILED = "failed"
    SUSPENDED = "suspended"  # or held
    STOPPED = "stopped"  # by a person
    DONE = "done"  # succeeded


GROUPS: Final[Mapping[Outcome, Group]] = {
    Outcome.HELD: Group.SUSPENDED,
    Outcome.WAITING: Group.WAITING,
    Outcome.STARTING: Group.ACTIVE,
    Outcome.RUNNING: Group.ACTIVE,
    Outcome.RESTARTING: Group.ACTIVE,
    Outcome.STOPPING: Group.ACTIVE,
    Outcome.SUSPENDED: Group.SUSPENDED,
    Outcome.SUCCEEDED: Group.DONE,
    Outcome.FAILED: Group.FAILED,
    Outcome.STOPPED: Group.STOPPED,
}


# --- the machine --------------------------------------------------------------------------------------------------


class Resources(Value, frozen=True):
    cpu: float = 0.0  # cores
    memory: int = 0  # bytes
    gpus: tuple[str, ...] = ()  # numbers of devices
    gpu_number: int | msgspec.UnsetType = msgspec.UNSET  # where they have no numbers


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
    outcome: Outcome | None = None  # of a run
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


class Evidence(Value, frozen=True):
    """What an object of a cluster says about the reason."""

    subject: str  # `Pod train-worker-0`
    field: str
    since: dt.datetime | None
    text: str


class QueueEntry(Value, frozen=True):
    """A run that holds room, or waits. `position` is None for one that holds it."""

    position: int | None
    job: str
    uid: str
    outcome: Outcome | None
    phase: str
    needs: str  # `8 GPUs, 16 CPUs, 64 GiB`
    until: dt.datetime | None = None
    is_this: bool = False


class Waiting(Value, frozen=True):
    code: str  # of `pumice why`
    text: str
    lead: str = ""  # the beginning of the text that names what is short
    since: dt.datetime | None = None
    position: int | None = None  # from 1
    pods: int = 0  # that start together
    drains_at: dt.datetime | None = None
    behind: str = ""
    short: tuple[Shortage, ...] = ()
    hints: tuple[Hint, ...] = ()
    queue: tuple[QueueEntry, ...] = ()  # only in a job, not in the list
    evidence: tuple[Evidence, ...] | msgspec.UnsetType = msgspec.UNSET  # only on a cluster

    @property
    def after_lead(self) -> str:
        return self.text.removeprefix(self.lead)


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
    ran: float | None = None  # seconds for which it had its resources; None if it has not ended
    first: str = ""  # the pod that failed first
    exit: str = ""  # how: `exit code 1`, `signal 9 (SIGKILL)`
    exit_code: int | None = None
    last_line: str = ""
    then: str = ""  # what a policy did: `PodFailed → RestartJob`


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
    outcome: Outcome
    phase: str
    group: Group  # of its outcome
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
    waited: float | None = None  # seconds before it got its resources
    text: str = ""
    lead: str = ""  # the beginning of the text that names what failed
    last_line: LastLine | None = None
    waiting: Waiting | None = None
    note: str = ""  # of the user
    args: tuple[str, ...] = ()  # of the program
    mode: str = ""  # foreground or detached
    host: str = ""
    priority: int = 0
    exit_code: int | None = None
    code: str = ""  # what changed of its code before the newest attempt
    hang: Hang | None = None  # while no pod prints anything
    published: tuple[PublishedPort, ...] = ()
    damaged: str = ""  # what cannot be read of it

    @property
    def after_lead(self) -> str:
        return self.text.removeprefix(self.lead)

    @property
    def is_active(self) -> bool:
        return self.group is Group.ACTIVE

    @property
    def typed_args(self) -> str:
        return shown_words(self.args)

    @property
    def identity(self) -> str:
        """What tells it from other runs of its Job: arguments and note."""
        return " · ".join(filter(None, (self.typed_args, self.note)))


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

    verdict: Verdict | None = None  # why it ended, or what failed so far
    before: str = ""  # whether earlier attempts failed the same way
    max_attempts: int = 0  # that it may have
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
