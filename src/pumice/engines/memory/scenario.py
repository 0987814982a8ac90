"""The types of a scenario: how pods behave, what happens when, and what is expected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Final

import msgspec

from pumice.model.snapshot import PodPhase
from pumice.model.vocabulary import POLICY_ACTIONS, Phase

# A simulation ends after this time.
HORIZON: Final = dt.timedelta(days=365)
MOST_STEPS: Final = 2_000
MOST_PODS: Final = 10_000

# The phase of a pod or job that does not exist.
GONE: Final = "gone"
GROUP_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
# The prefix of pod names among the parts of an expectation.
PODS: Final = "pods."

ExitCode = Annotated[int, msgspec.Meta(ge=0, le=255)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Word = Annotated[str, msgspec.Meta(max_length=100)]


@dataclass(frozen=True, slots=True)
class Span:
    """How long something takes: a fixed time, or a random one between two bounds."""

    shortest: dt.timedelta
    longest: dt.timedelta

    @classmethod
    def of(cls, seconds: float) -> Span:
        return cls(dt.timedelta(seconds=seconds), dt.timedelta(seconds=seconds))

    def drawn(self, seed: str) -> dt.timedelta:
        """The same seed gives the same time; rounded to what the output shows."""
        if self.shortest == self.longest:
            return self.shortest
        seconds = (self.longest - self.shortest).total_seconds()
        part = Random(seed).random()  # noqa: S311 - not for secrets
        return self.shortest + dt.timedelta(seconds=round(seconds * part, 1))


RUN: Final = Span.of(10)
START: Final = Span.of(0)
STOP: Final = Span.of(1)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How pods behave unless something happens to them."""

    run: Span = RUN
    exit: int = 0
    reason: str = ""
    start: Span = START  # from having room to running
    stop: Span = STOP  # from the deletion request to the end


class Expected(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    phase: Annotated[str, msgspec.Meta(extra={"one_of": (*Phase, GONE)})] | None = None
    reason: Word | None = None
    retry_count: Count | None = None
    version: Count | None = None
    pending: Count | None = None
    running: Count | None = None
    succeeded: Count | None = None
    failed: Count | None = None
    terminating: Count | None = None
    unknown: Count | None = None
    pods: dict[str, Annotated[str, msgspec.Meta(extra={"one_of": (*PodPhase, GONE)})]] = {}

    def parts(self) -> dict[str, object]:
        fields = msgspec.to_builtins(self)
        pods = {PODS + name: phase for name, phase in fields.pop("pods").items()}
        return {name: value for name, value in fields.items() if value is not None} | pods


class ExpectStep(msgspec.Struct, frozen=True, kw_only=True):
    expect: Expected
    at: dt.timedelta | None = None
    by: dt.timedelta | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, rename={"duration": "for"}):
    """Something that happens. FIELDS says which fields each kind of step has."""

    kind: str = ""
    at: dt.timedelta = dt.timedelta()
    pods: str = ""  # `*`, a task or a pod
    pod: str = ""
    run: Span | None = None
    exit: ExitCode | None = None
    reason: Word = ""
    start: Span | None = None
    stop: Span | None = None
    signal: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    container: str = ""
    evict: Any = None  # true, or {exit: CODE} for a pod that fails while it is deleted; read into `exit`
    pending: bool = False
    restarts: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 1
    ready: bool = False
    controller: Annotated[str, msgspec.Meta(extra={"one_of": ("down", "up")})] = "down"
    duration: dt.timedelta | None = None
    command: Annotated[str, msgspec.Meta(extra={"one_of": POLICY_ACTIONS})] = ""
    scale: dict[str, Annotated[int, msgspec.Meta(ge=0, le=MOST_PODS)]] = {}
    suspend: bool = False
    group: Annotated[str, msgspec.Meta(extra={"one_of": GROUP_PHASES})] = ""

    @property
    def code(self) -> int:
        return 128 + self.signal if self.exit is None else self.exit

    @property
    def behaviour(self) -> dict[str, Any]:
        """The fields of `Behaviour` that the step sets. A reason belongs to its exit code."""
        fields = {name: getattr(self, name) for name in ("run", "exit", "start", "stop")}
        given = {name: value for name, value in fields.items() if value is not None}
        return given if self.exit is None else {**given, "reason": self.reason}


# Each kind of step, named after the field that decides it, with the fields it has. `pod` is required, and `at` except
# for `pods`.
FIELDS: Final = {
    "pods": ("at", "pods", "run", "exit", "reason", "start", "stop"),
    "exit": ("at", "pod", "exit", "signal", "reason", "container"),
    "evict": ("at", "pod", "evict"),
    "pending": ("at", "pod", "pending"),
    "restarts": ("at", "pod", "restarts"),
    "ready": ("at", "pod", "ready"),
    "controller": ("at", "controller", "for"),
    "command": ("at", "command"),
    "scale": ("at", "scale"),
    "suspend": ("at", "suspend"),
    "group": ("at", "group"),
}
# At 0s these apply before the controller creates anything, so that they hold for the first pods, too.
SETTINGS: Final = frozenset(("pods", "pending", "group", "controller"))


@dataclass(frozen=True, slots=True)
class Expectation:
    """Holds at some moment between `at` and `by`; at `at` if there is no `by`; at the end if there is neither."""

    parts: Mapping[str, object]
    at: dt.timedelta | None = None
    by: dt.timedelta | None = None

    @property
    def first(self) -> dt.timedelta:
        return self.at or dt.timedelta()

    @property
    def last(self) -> dt.timedelta | None:
        return self.at if self.by is None else self.by


class Capacity(msgspec.Struct, frozen=True):
    pods: Count


class ScenarioFile(msgspec.Struct, frozen=True):
    """The document of a scenario; `steps` holds what FIELDS describes."""

    steps: list[Any]
    description: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    seed: int = 0
    capacity: Capacity | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    description: str = ""
    seed: int = 0
    capacity: int | None = None
    steps: tuple[Step, ...] = ()
    expectations: tuple[Expectation, ...] = ()
