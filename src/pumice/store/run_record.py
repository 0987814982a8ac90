"""What is stored about a run: `run.json`, which never changes, and `status.json`, the newest status for readers.

Readers keep fields that they do not know, and list a run of another format as written by another version of Pumice.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from pumice.diagnosis.code_change import CodeChange
from pumice.diagnosis.hang import Hang
from pumice.diagnosis.outcome import Facts, Outcome, is_asked, outcome, stop_text
from pumice.diagnosis.verdict import Verdict
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.store.run_names import is_directory_name, run_ref

FORMAT: Final = 3
FOREGROUND: Final = "foreground"
DETACHED: Final = "detached"
OPENED: Final = "opened"  # from an archive: it is read and removed, and nothing else
# Phases of a run before its job has one.
QUEUED: Final = "Pending"

# Reasons of runs that wait for `resume`.
SECRETS_MISSING: Final = "SecretsMissing"
NEED_RESUME: Final = frozenset({SUSPENDED, SECRETS_MISSING})


# Times of damaged files may have no time zone, and cannot be compared with others.
Moment: TypeAlias = Annotated[dt.datetime, msgspec.Meta(tz=True)]
LONGEST_BOUND: Final = 100 * 365 * 86400.0  # seconds; what ends later than that has no bound


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of what is stored as JSON."""


class GangPods(_Stored, frozen=True):
    """Pods of one task that start together and request the same."""

    task: str
    count: int
    requests: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Raises ValueError."""
        for text in self.requests.values():
            Quantity.parse(text)


class RunRecord(_Stored, frozen=True):
    """`run.json`. The uid is the Job's; `python` and `version` are those that submitted it.

    A file that is damaged is no record: what every list of runs reads is checked here, the rest of the Job by readers.
    """

    uid: str
    namespace: str
    name: str
    number: int
    host: str
    boot: str  # the boot id of the machine at that time
    created: Moment
    job: dict[str, Any]  # as written
    format: int = msgspec.field(default_factory=lambda: FORMAT)  # not a plain default: those are not written
    mode: str = FOREGROUND
    file: str = ""  # as it was named on the command line
    workdir: str = ""
    marks: Any = None  # the lines of the file: yaml.marks
    documents: list[dict[str, Any]] = []  # without the values of Secrets
    options: dict[str, Any] = {}  # without the values of secret variables
    secrets: list[str] = []  # names of variables and Secrets that are not stored
    sources: dict[str, str] = {}  # files with Secrets: the hash of each, by path
    priority: int = 0
    gang: list[GangPods] = []  # what it needs to start
    scalable: bool = True  # it works with fewer pods, too
    gpus: list[str] | None = None  # the devices that the submitter sees; None if all
    bound: float | None = None  # seconds after which it ends, at the latest
    note: str = ""
    args: list[str] = []  # of the program, as they are shown: without secret values
    python: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not is_directory_name(self.uid):
            raise ValueError(f"uid: {self.uid!r}: must be the uid of a Job")
        spec = self.job.get("spec", {})
        tasks = spec.get("tasks") or [] if isinstance(spec, dict) else None
        if not isinstance(tasks, list) or not all(
            isinstance(each, dict) and isinstance(each.get("replicas", 1), int) for each in tasks
        ):
            raise ValueError("job: must be a Job")
        if self.bound is not None and not 0 <= self.bound <= LONGEST_BOUND:
            raise ValueError(f"bound: {self.bound}: must be a number of seconds")

    @property
    def ref(self) -> str:
        return run_ref(self.name, self.number, opened=self.mode == OPENED)


def seconds_active(
    ran: float, started: dt.datetime | None, finished: dt.datetime | None, now: dt.datetime
) -> float | None:
    """Return for how many seconds a run had its resources, in all; None if it never had."""
    if started is not None and finished is None:
        return ran + (now - started).total_seconds()
    return ran if ran or started is not None else None


class PodCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    running: int = 0
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    pending: int = 0


class PublishedPort(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A port of a pod that programs of this machine reach at an address, as soon as that is not taken."""

    pod: str  # short name
    port: int
    address: str
    taken: str = ""  # by whom: then it is not published yet

    def __str__(self) -> str:
        return f"{self.pod}:{self.port} -> {self.address}" + (" (taken)" if self.taken else "")

    @property
    def text(self) -> str:
        """Return where it is published, or why it is not yet."""
        if self.taken:
            return f"{self.taken}; retrying"
        return f"{self.pod}:{self.port} is published on {self.address}"


class RunStatus(_Stored, frozen=True):
    """`status.json`: a cache of the journal up to the record `seq`."""

    seq: int = 0
    phase: str = QUEUED
    reason: str = ""
    message: str = ""
    attempt: int = 1
    max_attempts: int = 0
    pods: PodCounts = PodCounts()
    arrival: int = 0  # its number in the queue of the machine; 0 if it never waited
    held: Moment | None = None  # when it first had to wait, in this queue
    started: Moment | None = None  # when it got its resources
    gpus: tuple[str, ...] = ()  # the devices that it got with it
    finished: Moment | None = None
    ran: float = 0.0  # seconds for which it had its resources, until it last lost them
    exit_code: int | None = None
    note: str = ""  # the last failure, or why it waits
    hang: Hang | None = None  # while it lasts
    code_change: CodeChange | None = None  # when the newest attempt began
    published: tuple[PublishedPort, ...] = ()  # while it runs
    verdict: Verdict | None = None  # without its text
    stopping: bool = False  # it was asked to end, or to be suspended
    stopped: bool = False  # by a person, who ended or suspended it
    command: str = ""  # that resumes it, if it waits for secrets
    size: int = 0  # bytes of its files, when it ended

    def seconds_active(self, now: dt.datetime) -> float | None:
        """Return for how many seconds it had its resources, in all; None if it never had."""
        return seconds_active(self.ran, self.started, self.finished, now)

    @property
    def needs_resume(self) -> bool:
        """Whether it continues only after `resume`: it is suspended, or its secrets are missing."""
        return self.finished is None and (self.phase == Phase.ABORTED or self.reason in NEED_RESUME)

    @property
    def outcome(self) -> Outcome:
        ended = self.finished is not None
        return outcome(
            Facts(
                phase=self.phase,
                ended=ended,
                started=self.started is not None,
                needs_resume=self.needs_resume,
                stopping=self.stopping,
                asked=is_asked(self.reason) if ended else self.stopped,
            )
        )

    @property
    def text(self) -> str:
        """What is to be said about it in one line: why it waits, what failed last, who stopped it."""
        match self.outcome:
            case Outcome.SUCCEEDED:
                return ""
            case Outcome.STOPPED | Outcome.SUSPENDED:
                return stop_text(self.reason, self.message)
        taken = () if self.finished is not None else [each.text for each in self.published if each.taken]
        return "; ".join(filter(None, (*taken, self.note)))
