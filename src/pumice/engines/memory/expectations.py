"""What a scenario expects of a job, held against what is."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.engines.memory.scenario import Expectation
from pumice.engines.memory.world import World
from pumice.model.snapshot import JobKey

GONE = "gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an expectation was met, when, and what was there at the end."""

    expectation: Expectation
    met_at: float | None
    found: dict[str, object]


@dataclass(slots=True)
class Expectations:
    world: World
    key: JobKey
    all: tuple[Expectation, ...]
    _met: dict[int, float] = field(default_factory=dict)
    _missed: dict[int, dict[str, object]] = field(default_factory=dict)

    def look(self) -> None:
        """Note which of those with a time limit are met now, and how those stand whose time is just up."""
        for expectation in self.all:
            if expectation.by is None or expectation.position in self._met:
                continue
            found = self._found(expectation)
            if self.world.clock.elapsed <= expectation.by.total_seconds():
                self._missed[expectation.position] = found
                if found == dict(expectation.what):
                    self._met[expectation.position] = self.world.clock.elapsed

    def outcomes(self) -> list[Outcome]:
        told = []
        for expectation in self.all:
            found = self._found(expectation)
            met = self._met.get(expectation.position)
            if expectation.by is None and found == dict(expectation.what):
                met = self.world.clock.elapsed
            told.append(Outcome(expectation, met, self._missed.get(expectation.position, found)))
        return told

    def _found(self, expectation: Expectation) -> dict[str, object]:
        """The same questions, with the answers as they are."""
        job = self.world.jobs.get(self.key)
        if job is None:
            return dict.fromkeys(expectation.what, GONE)
        status = job.status
        known: dict[str, object] = {
            "phase": status.state.phase,
            "reason": status.state.reason,
            "retryCount": status.retry_count,
            "version": status.version,
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "terminating": status.terminating,
            "unknown": status.unknown,
        }
        phases = {stored.seen.short_name: str(stored.seen.phase) for stored in self.world.pods_of(self.key)}
        pods = expectation.what.get("pods", {})
        return {
            name: {pod: phases.get(pod, GONE) for pod in pods} if name == "pods" else known[name]
            for name in expectation.what
        }
