"""What is stored about a run: `run.json`, which never changes, and `status.json`, the newest status for readers.

Readers keep fields that they do not know, and list a run of a higher format as written by a newer Pumice.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from pumice.engines.local.runs.run_names import is_directory_name
from pumice.engines.local.why import Verdict
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import SUSPENDED, Phase

FORMAT: Final = 2
FOREGROUND: Final = "foreground"
DETACHED: Final = "detached"
# Phases of a run before its job has one.
QUEUED: Final = "Pending"

# Reasons of runs that wait for `resume`.
SECRETS_MISSING: Final = "SecretsMissing"
NEED_RESUME: Final = frozenset({SUSPENDED, SECRETS_MISSING})

# Values of variables with such names are not stored.
SECRET_NAME: Final = re.compile("TOKEN|SECRET|PASSWORD|KEY", re.IGNORECASE)


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
    format: int = FORMAT
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
    python: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not is_directory_name(self.uid):
            raise ValueError(f"uid: {self.uid!r}: must be the uid of a Job")
        spec = self.job.get("spec", {})
        tasks = spec.get("tasks") or [] if isinstance(spec, dict) else None
        if not isinstance(tasks, list) or not all(map(_is_task, tasks)):
            raise ValueError("job: must be a Job")
        if self.bound is not None and not 0 <= self.bound <= LONGEST_BOUND:
            raise ValueError(f"bound: {self.bound}: must be a number of seconds")

    @property
    def ref(self) -> str:
        return f"{self.name}:{self.number}"


def _is_task(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("replicas", 1), int)


class PodCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    running: int = 0
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    pending: int = 0


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
    started: Moment | None = None  # when it got its room
    gpus: tuple[str, ...] = ()  # the devices that it got with it
    finished: Moment | None = None
    exit_code: int | None = None
    note: str = ""  # what `ps` shows: the last failure, or why it waits
    verdict: tuple[str, ...] = ()  # in words
    verdict_data: Verdict | None = None  # without its text
    stopped: bool = False  # by `stop` or `suspend`
    size: int = 0  # bytes of its files, when it ended

    @property
    def needs_resume(self) -> bool:
        """Whether it continues only after `resume`: it is suspended, or its secrets are missing."""
        return self.finished is None and (self.phase == Phase.ABORTED or self.reason in NEED_RESUME)
