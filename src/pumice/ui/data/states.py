"""The state of each pod of a run, and which pod failed first, from the history of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pumice.engines.local.outcome import Failure, Failures
from pumice.model.slot import slots
from pumice.model.snapshot import PodPhase
from pumice.reconcile.failure_lines import is_collateral
from pumice.reconcile.verdict import how_it_ended
from pumice.ui.data.history import PodLife, RunHistory
from pumice.ui.values import Attempt, PodState, TaskPods

# Seconds: pods of a gang that fail this soon after the first failure count as its consequence.
_TOGETHER: Final = 10.0
_SHOWN: Final = 64  # pods of a task whose states are listed


@dataclass(frozen=True, slots=True)
class AttemptStates:
    """`failures` are in order, the first one first."""

    attempt: int
    states: dict[str, PodState]  # by short name
    failures: tuple[Failure, ...] = ()

    def delay(self, failure: Failure) -> float | None:
        """Return how many seconds after the first failure another one was."""
        first = self.failures[0].end.finished_at if self.failures else None
        if first is None or failure.end.finished_at is None:
            return None
        return round((failure.end.finished_at - first).total_seconds(), 3)

    def counts(self) -> dict[PodState, int]:
        return dict(Counter(self.states.values()))


def attempt_states(history: RunHistory, attempt: int, *, over: bool) -> AttemptStates:
    """`over`: no process works on the run any more, so what has not ended was stopped."""
    lives = history.of_attempt(attempt)
    failures = Failures()
    for life in lives:
        failures.record(life.pod)
    found = AttemptStates(attempt, {}, failures.in_order())
    by_name = {each.pod.short_name: each for each in found.failures if each.pod.phase is PodPhase.FAILED}
    over = over or attempt < history.attempt
    for life in lives:
        failure = by_name.get(life.name)
        found.states[life.name] = _state(history, life, over=over)
        if failure is not None:
            found.states[life.name] = _failed(history, found, failure)
    if attempt == history.attempt:
        for slot in slots(history.job):
            found.states.setdefault(slot.short_name, PodState.STOPPED if over else PodState.WAITING)
    return found


def _state(history: RunHistory, life: PodLife, *, over: bool) -> PodState:
    pod = life.pod
    if pod.phase is PodPhase.SUCCEEDED:
        return PodState.DONE
    if over or pod.phase is PodPhase.FAILED:
        return PodState.STOPPED
    if life.runs and life.runs[-1].end is not None:
        return PodState.RESTARTING
    if pod.phase is PodPhase.RUNNING:
        return PodState.RUNNING
    task = history.job.task(pod.task)
    starts = pod.waiting is None and task is not None and bool(task.pod_spec.get("initContainers"))
    return PodState.INIT if starts else PodState.WAITING


def _failed(history: RunHistory, found: AttemptStates, failure: Failure) -> PodState:
    if failure is found.failures[0]:
        return PodState.FIRST
    delay, spec = found.delay(failure), history.job.spec
    gang = 1 < history.job.total_replicas <= (spec.min_available or history.job.total_replicas)
    together = gang and delay is not None and delay <= _TOGETHER
    return PodState.FOLLOWED if together or is_collateral(failure.end) else PodState.FAILED


def task_pods(history: RunHistory, states: AttemptStates) -> tuple[TaskPods, ...]:
    found = []
    for task in history.job.spec.tasks:
        default = PodState.WAITING
        of_task = [states.states.get(f"{task.name}-{index}", default) for index in range(task.replicas)]
        shown = tuple(of_task) if len(of_task) <= _SHOWN else ()
        found.append(TaskPods(name=task.name, total=task.replicas, counts=dict(Counter(of_task)), states=shown))
    return tuple(found)


def attempts(history: RunHistory, *, over: bool, phase: str) -> tuple[Attempt, ...]:
    """Return the attempts, the first one first. `phase` is that of the run."""
    found = []
    for each in history.attempts:
        is_last = each is history.attempts[-1]
        states = attempt_states(history, each.number, over=over)
        first = states.failures[0] if states.failures else None
        then = "" if each.acted is None else f"{each.acted.event} -> {each.acted.action}"
        if then and is_last and phase == "Failed" and history.spent >= history.job.spec.max_retry > 0:
            then = f"no retry left for {then}"
        if not is_last:
            outcome = "failed" if first is not None else "stopped"
        else:
            outcome = _outcome(phase, over=over, failed=first is not None)
        found.append(
            Attempt(
                number=each.number,
                outcome=outcome,
                start=each.start,
                end=each.end,
                first="" if first is None else first.pod.short_name,
                exit="" if first is None else how_it_ended(first.end),
                exit_code=None if first is None else first.end.exit_code,
                last_line="" if first is None else first.end.last_line,
                then=then,
            )
        )
    return tuple(found)


def _outcome(phase: str, *, over: bool, failed: bool) -> str:
    if phase == "Completed":
        return "completed"
    if phase == "Failed":
        return "failed"
    if over:
        return "failed" if failed and phase != "Aborted" else "stopped"
    return "running"
