"""The line at the bottom of a terminal while a job runs: `Running 3/3  master ● worker ●●  00:07`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase

_MARKS: Final = {
    PodPhase.PENDING: "○",
    PodPhase.RUNNING: "●",
    PodPhase.SUCCEEDED: "✓",
    PodPhase.FAILED: "✗",
    PodPhase.UNKNOWN: "?",
}
_PLAIN_MARKS: Final = dict(zip(_MARKS, ".o+x?", strict=True))
_COLOURS: Final = {PodPhase.PENDING: "2", PodPhase.RUNNING: "32", PodPhase.SUCCEEDED: "32", PodPhase.FAILED: "31"}
# A task with more pods gets counts instead of marks.
_MOST_MARKS: Final = 16


@dataclass(slots=True)
class PodStates:
    """The newest pod of each name, by task."""

    _phases: dict[str, dict[int, PodPhase]] = field(default_factory=dict)
    _total: int = 0

    def resize(self, job: Job) -> None:
        self._phases = {task.name: self._phases.get(task.name, {}) for task in job.spec.tasks}
        self._total = job.total_replicas

    def record(self, pod: ObservedPod) -> None:
        self._phases.setdefault(pod.task, {})[pod.index] = pod.phase

    @property
    def running(self) -> int:
        return sum(phase is PodPhase.RUNNING for phases in self._phases.values() for phase in phases.values())

    @property
    def total(self) -> int:
        return self._total

    def by_task(self) -> Mapping[str, Sequence[PodPhase]]:
        return {task: [phases[index] for index in sorted(phases)] for task, phases in self._phases.items()}


def state_line(phase: str, states: PodStates, elapsed: float, *, coloured: bool, unicode: bool = True) -> str:
    tasks = [f"{task} {_marks(phases, coloured, unicode)}" for task, phases in states.by_task().items() if phases]
    minutes, seconds = divmod(int(elapsed), 60)
    clock = f"{minutes:02}:{seconds:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"  # noqa: PLR2004 - an hour
    count = f" {states.running}/{states.total}" if phase == "Running" else ""
    return "  ".join(part for part in (f"{phase or 'Starting'}{count}", " ".join(tasks), clock) if part)


def _marks(phases: Sequence[PodPhase], coloured: bool, unicode: bool) -> str:  # noqa: FBT001 - two facts about the terminal
    marks = _MARKS if unicode else _PLAIN_MARKS

    def painted(phase: PodPhase, text: str) -> str:
        return f"\x1b[{_COLOURS[phase]}m{text}\x1b[0m" if coloured and phase in _COLOURS else text

    if len(phases) <= _MOST_MARKS:
        return "".join(painted(phase, marks[phase]) for phase in phases)
    counts = Counter(phases)
    return " ".join(painted(phase, f"{counts[phase]}{marks[phase]}") for phase in marks if counts[phase])
