"""The line at the bottom of a terminal while a job runs: `Running 3/3  master ● worker ●●  00:07`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.units import clock_text

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


class PodStates(Struct):
    """The newest pod of each name, by task."""

    _phases: dict[str, dict[int, PodPhase]] = field(default_factory=dict)
    _replicas: dict[str, int] = field(default_factory=dict)  # by task

    def resize(self, job: Job) -> None:
        self._phases = {task.name: self._phases.get(task.name, {}) for task in job.spec.tasks}
        self._replicas = {}
        self.scale({task.name: task.replicas for task in job.spec.tasks})

    def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the numbers of pods of some tasks. Pods beyond them are not shown any more."""
        self._replicas |= replicas
        for task, number in replicas.items():
            phases = self._phases.get(task, {})
            self._phases[task] = {index: phase for index, phase in phases.items() if index < number}

    def record(self, pod: ObservedPod) -> None:
        if pod.index < self._replicas.get(pod.task, pod.index + 1):
            self._phases.setdefault(pod.task, {})[pod.index] = pod.phase

    @property
    def running(self) -> int:
        return sum(phase is PodPhase.RUNNING for phases in self._phases.values() for phase in phases.values())

    @property
    def total(self) -> int:
        return sum(self._replicas.values())

    def by_task(self) -> Mapping[str, Sequence[PodPhase]]:
        return {task: [phases[index] for index in sorted(phases)] for task, phases in self._phases.items()}


def state_line(phase: str, states: PodStates, elapsed: float, *, coloured: bool, unicode: bool = True) -> str:
    tasks = [f"{task} {_marks(phases, coloured, unicode)}" for task, phases in states.by_task().items() if phases]
    count = f" {states.running}/{states.total}" if phase == "Running" else ""
    return "  ".join(part for part in (f"{phase or 'Starting'}{count}", " ".join(tasks), clock_text(elapsed)) if part)


def _marks(phases: Sequence[PodPhase], coloured: bool, unicode: bool) -> str:  # noqa: FBT001 - two facts about the terminal
    marks = _MARKS if unicode else _PLAIN_MARKS

    def painted(phase: PodPhase, text: str) -> str:
        return f"\x1b[{_COLOURS[phase]}m{text}\x1b[0m" if coloured and phase in _COLOURS else text

    if len(phases) <= _MOST_MARKS:
        return "".join(painted(phase, marks[phase]) for phase in phases)
    counts = Counter(phases)
    return " ".join(painted(phase, f"{counts[phase]}{marks[phase]}") for phase in marks if counts[phase])
