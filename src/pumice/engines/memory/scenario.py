"""What a scenario says, as plain values: how pods behave, what happens when, and what is expected of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

# Longer than anybody waits for a job; a story that goes on is cut off here.
HORIZON: Final = dt.timedelta(days=365)
MOST_STEPS: Final = 2_000
MOST_PODS: Final = 10_000

# What a pod, or a job, is called that is not there (any more).
GONE: Final = "gone"
GROUP_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
COUNTS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
NUMBERS: Final = ("retryCount", "version", *COUNTS)
EXPECTED: Final = ("phase", "reason", *NUMBERS, "pods")
# Before the names of pods among the parts of an expectation.
PODS: Final = "pods."


@dataclass(frozen=True, slots=True)
class Span:
    """How long something takes: always the same, or each time something between two bounds."""

    shortest: dt.timedelta
    longest: dt.timedelta

    @classmethod
    def of(cls, seconds: float) -> Span:
        return cls(dt.timedelta(seconds=seconds), dt.timedelta(seconds=seconds))

    def drawn(self, seed: str) -> dt.timedelta:
        """The same seed draws the same; rounded to what a story shows."""
        if self.shortest == self.longest:
            return self.shortest
        seconds = (self.longest - self.shortest).total_seconds()
        part = Random(seed).random()  # noqa: S311 - nobody's secret hangs on how long a pod runs
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
    stop: Span = STOP  # from being told to end to being gone


@dataclass(frozen=True, slots=True)
class Step:
    at: dt.timedelta
    kind: str
    fields: Mapping[str, Any]


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


@dataclass(frozen=True, slots=True)
class Scenario:
    description: str = ""
    seed: int = 0
    capacity: int | None = None
    steps: tuple[Step, ...] = ()
    expectations: tuple[Expectation, ...] = ()
