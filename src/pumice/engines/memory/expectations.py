"""Compares what a scenario expects with the state of the job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from msgspec import Struct

from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.scenario import GONE, PODS, Expectation
from pumice.model.snapshot import JobKey


class Outcome(Struct, frozen=True):
    """Whether and when an expectation was met, and the values at the last check."""

    expectation: Expectation
    met_at: float | None
    looked_at: float
    phase: str  # of the job, then
    found: dict[str, object]


@dataclass(slots=True)
class Expectations:
    world: World
    key: JobKey
    all: tuple[Expectation, ...]
    _outcomes: dict[int, Outcome] = field(default_factory=dict)
    _open: set[int] = field(init=False)
    _at_rest: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._open = {number for number, expectation in enumerate(self.all) if expectation.last is not None}

    @property
    def open(self) -> int:
        """The number of expectations that are not decided yet."""
        return len(self._open)

    def check(self) -> None:
        """Check the expectations whose time has come."""
        now, facts = self.world.clock.elapsed, None
        for number in sorted(self._open):
            expectation = self.all[number]
            last = expectation.last
            if last is not None and now > last.total_seconds():
                self._open.discard(number)
            elif now >= expectation.first.total_seconds():
                facts = self._facts() if facts is None else facts
                self._outcomes[number] = self._outcome(expectation, facts)
                if self._outcomes[number].met_at is not None:
                    self._open.discard(number)

    def rest(self) -> None:
        """The job has ended: keep its final values, even if the job is deleted later."""
        self._at_rest = self._facts()

    def outcomes(self) -> list[Outcome]:
        facts = self._facts()
        # The final values of the job; only `phase: gone` asks for a deleted one.
        last = facts or self._at_rest
        return [
            self._outcomes.get(number) or self._outcome(one, facts if one.parts.get("phase") == GONE else last)
            for number, one in enumerate(self.all)
        ]

    def _outcome(self, expectation: Expectation, facts: dict[str, object]) -> Outcome:
        found = {name: facts.get(name, GONE) for name in expectation.parts}
        now = self.world.clock.elapsed
        in_time = expectation.last is None or now <= expectation.last.total_seconds()
        met = in_time and now >= expectation.first.total_seconds() and found == dict(expectation.parts)
        return Outcome(expectation, now if met else None, now, str(facts.get("phase", GONE)), found)

    def _facts(self) -> dict[str, object]:
        """All values that a scenario may name."""
        job = self.world.jobs.get(self.key)
        if job is None:
            return {}
        status = job.status
        return {
            "phase": status.state.phase or "Pending",
            "reason": status.state.reason,
            "retryCount": status.retry_count,
            "version": status.version,
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "terminating": status.terminating,
            "unknown": status.unknown,
            **self._pods(),
        }

    def _pods(self) -> dict[str, object]:
        """The phase of each pod, and of each task and all pods the common phase, or the number in each phase."""
        by_name: dict[str, object] = {}
        shared: dict[str, Counter[str]] = {}
        for stored in self.world.pods_of(self.key):
            phase = str(stored.seen.phase)
            by_name[PODS + stored.seen.short_name] = phase
            for name in (stored.seen.task, "*"):
                shared.setdefault(PODS + name, Counter())[phase] += 1
        for name, counts in shared.items():
            several = ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items()))
            by_name[name] = next(iter(counts)) if len(counts) == 1 else several
        return by_name
