"""What a client learns about runs: frozen values, which `-o json` prints as they are. They may gain fields."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

import msgspec

from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.runs.run_record import GangPods, PodCounts, RunStatus
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.scheduling.fit import GPU
from pumice.engines.local.why import Verdict, amount_text
from pumice.model.problem import Position
from pumice.model.quantity import Quantity
from pumice.model.resources import sum_usage
from pumice.model.suggestions import did_you_mean
from pumice.model.vocabulary import MAX_RETRY, Phase

# What `wait` waits for, besides a phase.
FINISHED: Final = "finished"
RUNNING: Final = "running"
_GOALS: Final = (FINISHED, RUNNING, *map(str, Phase))


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all values."""


class Status(_Value, frozen=True):
    """A run at one moment, as `ps` shows it."""

    run: str
    name: str
    number: int
    uid: str
    namespace: str
    phase: str
    reason: str
    pods: PodCounts
    attempt: int
    max_attempts: int
    note: str
    created: dt.datetime
    started: dt.datetime | None
    finished: dt.datetime | None
    exit_code: int | None
    priority: int
    mode: str
    host: str
    file: str
    directory: str
    stopped: bool = False  # by `stop` or `suspend`
    verdict: Verdict | None = None  # of a run that ended and did not complete
    gang: Sequence[GangPods] = ()  # what it needs to start
    readable: bool = True  # False for a run that a newer Pumice has written

    @property
    def is_finished(self) -> bool:
        return self.finished is not None

    @property
    def is_over(self) -> bool:
        """Whether it has finished, or continues only after `resume`."""
        return self.is_finished or self.stopped

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0


class Result(_Value, frozen=True):
    """How a run ended, or its state when it reached another goal. A suspended run can be resumed."""

    run: str
    uid: str
    phase: str
    reason: str
    exit_code: int | None  # None if it has not ended
    attempts: int
    created: dt.datetime
    started: dt.datetime | None
    finished: dt.datetime | None
    verdict: Verdict | None = None
    directory: str = ""  # with the logs

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.exit_code == 0

    def __str__(self) -> str:
        return f"{self.run} {self.phase}" + (f": {self.verdict}" if self.verdict is not None else "")


class PodStatus(_Value, frozen=True):
    """The newest pod of a name at one moment; `phase` is empty if it does not exist yet."""

    name: str  # TASK-INDEX
    task: str
    index: int
    phase: str = ""
    attempt: int = 0
    restarts: int = 0
    ready: bool = False
    created: dt.datetime | None = None
    finished: dt.datetime | None = None
    container: str = ""  # that ended it
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    line: str = ""  # the last one of a container that failed
    message: str = ""
    gpus: Sequence[str] = ()  # the devices that it has, or had


class Attempt(_Value, frozen=True):
    """One execution of a job: until it ended, or until a policy restarted it."""

    number: int
    begin: dt.datetime
    end: dt.datetime | None = None
    first_failure: str = ""  # in words
    policy: str = ""  # EVENT: ACTION
    pod: str = ""  # that failed first
    code: int | None = None
    signal: int | None = None
    line: str = ""  # the last one that it printed


class LogLine(_Value, frozen=True):
    """A line that a container printed, without its end. `time` is None in logs of an earlier Pumice."""

    time: dt.datetime | None
    pod: str
    container: str
    text: str
    stream: str = ""  # stdout or stderr
    attempt: int = 1
    restart: int = 0  # of the container

    def __str__(self) -> str:
        return f"{self.pod}  {self.text}"


class Event(_Value, frozen=True):
    """Something that happened in a run. `type` is plan, phase, pod, warning or verdict."""

    seq: int
    time: dt.datetime
    type: str
    pod: str = ""
    container: str = ""
    phase: str = ""
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    line: str = ""
    attempt: int | None = None
    policy: str = ""
    event: str = ""
    action: str = ""
    message: str = ""

    def __str__(self) -> str:
        words = (self.pod, self.phase, self.reason, self.message)
        return " ".join((self.time.isoformat(timespec="milliseconds"), self.type, *filter(None, words)))


def result_of(status: Status) -> Result:
    """Return the result of a run that has ended or was suspended."""
    return Result(
        run=status.run,
        uid=status.uid,
        phase=status.phase,
        reason=status.reason,
        exit_code=status.exit_code,
        attempts=status.attempt,
        created=status.created,
        started=status.started,
        finished=status.finished,
        verdict=status.verdict,
        directory=status.directory,
    )


def check_goal(goal: str, option: str) -> None:
    """Raises InvalidOption for a goal that `wait` does not know; `option` is where the user wrote it."""
    if goal.lower() not in map(str.lower, _GOALS):
        hint = f"{did_you_mean(goal, _GOALS)} it is one of {', '.join(_GOALS)}".lstrip()
        raise InvalidOption(f"{goal}: unknown", hint, Position(option))


def requested(found: Status) -> tuple[str, str, str]:
    """Return the CPUs, the memory and the GPUs that a run needs to start, for people; empty where it asks for none."""
    total = sum_usage(
        ({name: Quantity.parse(text) for name, text in pods.requests.items()}, pods.count) for pods in found.gang
    )
    cpu, memory, gpu = (amount_text(name, str(total[name])) if name in total else "" for name in ("cpu", "memory", GPU))
    return cpu, memory, gpu


def summary(run: StoredRun, status: RunStatus, note: str = "") -> Status:
    """Return a run at one moment. `note` replaces the note of the run itself."""
    record = run.record
    pods, attempts = status.pods, status.max_attempts
    if status.started is None and not pods.total:
        # It has not started: take the numbers of its Job.
        tasks = record.job.get("spec", {}).get("tasks") or []
        pods = msgspec.structs.replace(pods, total=sum(task.get("replicas", 1) for task in tasks))
        attempts = record.job.get("spec", {}).get("maxRetry") or MAX_RETRY
    return Status(
        run=run.ref,
        name=record.name,
        number=record.number,
        uid=record.uid,
        namespace=record.namespace,
        phase=status.phase,
        reason=status.reason,
        pods=pods,
        attempt=status.attempt,
        max_attempts=attempts,
        note=note or status.note or record.note,
        created=record.created,
        started=status.started,
        finished=status.finished,
        exit_code=status.exit_code,
        priority=record.priority,
        mode=record.mode,
        host=record.host,
        file=record.file,
        directory=str(run.directory),
        stopped=status.stopped,
        verdict=verdict_of(status),
        gang=record.gang,
        readable=not run.is_newer,
    )


def verdict_of(status: RunStatus) -> Verdict | None:
    """Return the verdict with its text; None for a run that has not ended, or that completed."""
    if not status.verdict and status.verdict_data is None:
        return None
    data = status.verdict_data or Verdict(reason=status.reason, attempt=status.attempt)
    return msgspec.structs.replace(data, text="\n".join(status.verdict) or status.message or status.reason)
