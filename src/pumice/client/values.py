"""What a client learns about runs: frozen values, which `-o json` prints as they are. They may gain fields."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pumice.diagnosis.code_change import CodeChange, code_change_text
from pumice.diagnosis.hang import Hang
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import Verdict
from pumice.diagnosis.verdict_lines import verdict_lines
from pumice.model.problem import Position
from pumice.model.pumice_error import PumiceError
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, sum_usage
from pumice.model.suggestions import did_you_mean
from pumice.model.text import printable, shortened, shown_words
from pumice.model.units import amount_text, elapsed_text
from pumice.model.vocabulary import Phase
from pumice.store.run_errors import InvalidOption
from pumice.store.run_record import GangPods, PodCounts, PublishedPort, RunRecord, RunStatus, seconds_active

_LONGEST_ARGS: Final = 60  # beside other words
# What `wait` waits for, besides an outcome or a phase.
FINISHED: Final = "finished"
RUNNING: Final = "running"
# The fields of Status that are those of a record, and of its status.
_OF_RECORD: Final = ("name", "number", "uid", "namespace", "note", "created", "priority", "mode", "host", "file")
_OF_STATUS: Final = ("outcome", "phase", "attempt", "started", "finished", "ran", "exit_code")
_GOALS: Final = (FINISHED, *dict.fromkeys((*map(str, Outcome), *map(str, Phase))))


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all values."""


class Status(_Value, frozen=True):
    """A run at one moment, as `ps` shows it."""

    run: str
    name: str
    number: int
    uid: str
    namespace: str
    outcome: Outcome
    phase: str
    reason: str
    message: str  # why it waits, what failed, who stopped it; in words
    pods: PodCounts
    attempt: int
    max_attempts: int
    note: str  # of the user
    args: Sequence[str]  # of the program; *** stands for a secret value
    created: dt.datetime
    started: dt.datetime | None
    finished: dt.datetime | None
    exit_code: int | None
    priority: int
    mode: str
    host: str
    file: str
    directory: str
    workdir: str = ""  # where it was submitted
    ran: float = 0.0  # seconds for which it had its resources, until it last lost them
    stopped: bool = False  # by a person: its outcome is Stopped or Suspended
    verdict: Verdict | None = None  # of a run that ended and did not complete
    gang: Sequence[GangPods] = ()  # what it needs to start
    code_change: CodeChange | None = None  # the newest attempt began with other files than were submitted
    hang: Hang | None = None  # while no pod prints anything
    published: Sequence[PublishedPort] = ()  # the addresses of its pods' ports, while it runs
    on: str = "local"  # the context of a cluster; this machine is `local`
    queue: str | msgspec.UnsetType = msgspec.UNSET  # of a Job on a cluster
    readable: bool = True  # False for a run that another version of Pumice has written

    @property
    def identity(self) -> str:
        """What tells it from other runs of its Job: arguments and note."""
        return " · ".join(filter(None, (shortened(shown_words(self.args), _LONGEST_ARGS), self.note)))

    @property
    def is_finished(self) -> bool:
        return self.finished is not None

    @property
    def is_over(self) -> bool:
        """Whether it has finished, or continues only after `resume`."""
        return self.is_finished or self.stopped

    @property
    def succeeded(self) -> bool:
        return self.outcome is Outcome.SUCCEEDED

    def seconds_active(self, now: dt.datetime) -> float | None:
        """Return for how many seconds it had its resources, in all; None if it never had."""
        return seconds_active(self.ran, self.started, self.finished, now)

    def reached(self, goal: str) -> bool:
        """Return whether the goal is its outcome or its phase; case does not count."""
        return goal.lower() in (self.outcome.lower(), self.phase.lower())


class Result(_Value, frozen=True):
    """How a run ended, or its state when it reached another goal. A suspended run can be resumed."""

    run: str
    uid: str
    outcome: Outcome
    phase: str
    reason: str
    message: str  # what failed, who stopped it; in words
    exit_code: int | None  # None if it has not ended
    attempts: int
    created: dt.datetime
    started: dt.datetime | None
    finished: dt.datetime | None
    verdict: Verdict | None = None
    directory: str = ""  # with the logs

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.outcome is Outcome.SUCCEEDED

    def __str__(self) -> str:
        said = (self.verdict.text if self.verdict is not None else "") or self.message
        return f"{self.run} {self.outcome}" + (f": {said}" if said else "")

    def __repr__(self) -> str:
        return printable(f"<Result {str(self).partition(chr(10))[0]}>")

    def _repr_html_(self) -> str:
        from pumice.model.display import notebook_html  # noqa: PLC0415 - only notebooks need it

        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        attempts = f"{self.attempts} attempts" if self.attempts > 1 else ""
        ran = ""
        if self.started is not None and self.finished is not None:
            ran = f"in {elapsed_text((self.finished - self.started).total_seconds())}"
        said = (self.verdict.text if self.verdict is not None else "") or self.message
        return notebook_html.division(
            notebook_html.heading(self.run, self.outcome, code, attempts, ran),
            notebook_html.block(said),
            notebook_html.paragraph(f"logs: {self.directory}") if self.directory else "",
        )


class RunFailed(PumiceError):
    """A run did not complete: `result` says how it ended, and `result.verdict` why."""

    __module__ = "pumice"  # as programs name it

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.args = (result,)  # to be pickled
        self.result = result

    def __str__(self) -> str:
        return self.problem.message


class Context(_Value, frozen=True):
    """Where runs can be: this machine, or what a context of the kubeconfig names."""

    name: str  # for `--on`
    is_default: bool  # where commands go without `--on`
    server: str = ""
    namespace: str = ""
    controller: str = ""  # of a cluster: Pumice, Volcano, none; `unknown` if this user may not see it
    problem: str = ""  # why nothing is known


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
    """A line that a container printed, without its end. `time` is None if Pumice was killed before it recorded it."""

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


def status_of(record: RunRecord, status: RunStatus, **more: Any) -> Status:
    """Return a run at one moment: the fields that follow from its record and its status, and more."""
    kept = {name: getattr(record, name) for name in _OF_RECORD} | {name: getattr(status, name) for name in _OF_STATUS}
    stopped = status.outcome in (Outcome.STOPPED, Outcome.SUSPENDED)
    return Status(run=record.ref, args=tuple(record.args), stopped=stopped, verdict=verdict_of(status), **kept, **more)


def result_of(status: Status) -> Result:
    """Return the result of a run that has ended or was suspended."""
    same = {name: getattr(status, name) for name in Result.__struct_fields__ if name != "attempts"}
    return Result(**same, attempts=status.attempt)


def check_goal(goal: str, option: str) -> None:
    """Raises InvalidOption for a goal that `wait` does not know; `option` is where the user wrote it."""
    if goal.lower() not in map(str.lower, _GOALS):
        hint = f"{did_you_mean(goal, _GOALS)} it is one of {', '.join(_GOALS)}".lstrip()
        raise InvalidOption(f"{goal}: unknown", hint, Position(option))


def changed_code(status: Status) -> str:
    """Return with which other files than were submitted its newest attempt began."""
    return "" if status.code_change is None else code_change_text(status.code_change)


def pods_done(status: Status) -> str:
    """Return the pods that run, or of a run that has finished those that succeeded: `2/3`."""
    return f"{status.pods.succeeded if status.is_finished else status.pods.running}/{status.pods.total}"


def requested(found: Status, holds: Mapping[str, Quantity] | None = None) -> tuple[str, str, str]:
    """Return the CPUs, the memory and the GPUs that a run holds, for people; empty where it asks for none.

    Without `holds`, of a run that does not run, they are those that it needs to start.
    """
    total = holds or sum_usage(
        ({name: Quantity.parse(text) for name, text in pods.requests.items()}, pods.count) for pods in found.gang
    )
    cpu, memory, gpu = (amount_text(name, str(total[name])) if name in total else "" for name in ("cpu", "memory", GPU))
    return cpu, memory, gpu


def verdict_of(status: RunStatus) -> Verdict | None:
    """Return the verdict with its text; None for a run that has not ended, completed, or was stopped without one."""
    lines = () if status.verdict is None else verdict_lines(status.verdict)
    return msgspec.structs.replace(status.verdict, text="\n".join(lines)) if status.verdict and lines else None
