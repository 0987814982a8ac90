"""The state of each pod of a run, and which pod failed first, from the history of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pumice.diagnosis.failures import Failure
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import Verdict, last_end
from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.model.snapshot import FINISHED_PODS, ObservedPod, PodPhase
from pumice.store.history.pod_life import PodLife
from pumice.store.history.run_history import RunHistory
from pumice.ui.values import Attempt, PodState, TaskPods

_COUNTED: Final = {
    PodPhase.PENDING: PodState.WAITING,
    PodPhase.RUNNING: PodState.RUNNING,
    PodPhase.SUCCEEDED: PodState.DONE,
    PodPhase.FAILED: PodState.FAILED,
}
_SHOWN: Final = 64  # pods of a task whose states are listed


@dataclass(frozen=True, slots=True)
class AttemptStates:
    """`failures` are in order, the first one first."""

    attempt: int
    states: dict[str, PodState]  # by short name
    failures: tuple[Failure, ...] = ()
    verdict: Verdict | None = None  # None if nothing failed
    succeeded: tuple[ObservedPod, ...] = ()

    @property
    def left_early(self) -> tuple[Failure, ...]:
        """The end of the pod that left its peers, if one did."""
        name = self.verdict.pod if self.verdict is not None and self.verdict.left_early else ""
        return tuple(Failure(pod, last_end(pod)) for pod in self.succeeded if pod.short_name == name)

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
    lives = history.lives_of(attempt)
    failures = history.failures(attempt)
    found = AttemptStates(attempt, {}, failures.in_order(), history.verdict(attempt), failures.succeeded())
    by_name = {each.pod.short_name: each for each in found.failures if each.pod.phase is PodPhase.FAILED}
    over = over or attempt < history.attempt
    for life in lives:
        failure = by_name.get(life.name)
        found.states[life.name] = _state(history, life, over=over)
        if failure is not None:
            found.states[life.name] = _failed(found.verdict, life.name)
    if attempt == history.attempt:
        for slot in slots(history.job):
            found.states.setdefault(slot.short_name, PodState.STOPPED if over else PodState.WAITING)
    return found


def _state(history: RunHistory, life: PodLife, *, over: bool) -> PodState:
    pod = life.pod
    if pod.has_succeeded:
        return PodState.DONE
    if over or pod.phase in FINISHED_PODS:
        return PodState.STOPPED
    if life.ended is not None:
        # It does not start again. The phase of a pod on a cluster follows the end of its containers.
        return PodState.RUNNING if pod.is_finished and not pod.is_deleting else PodState.STOPPED
    if life.runs and life.runs[-1].how is not None:
        return PodState.RESTARTING
    if pod.phase is PodPhase.RUNNING:
        return PodState.RUNNING
    task = history.job.task(pod.task)
    starts = pod.waiting is None and task is not None and bool(task.pod_spec.get("initContainers"))
    return PodState.INIT if starts else PodState.WAITING


def _failed(verdict: Verdict | None, name: str) -> PodState:
    if verdict is not None and verdict.pod == name:
        return PodState.FIRST
    followed = verdict is not None and any(each.pod == name for each in verdict.followers)
    return PodState.FOLLOWED if followed else PodState.FAILED


def task_pods(history: RunHistory, states: AttemptStates) -> tuple[TaskPods, ...]:
    found = []
    for task in history.job.spec.tasks:
        default = PodState.WAITING
        of_task = [states.states.get(f"{task.name}-{index}", default) for index in range(task.replicas)]
        shown = tuple(of_task) if len(of_task) <= _SHOWN else ()
        found.append(TaskPods(name=task.name, total=task.replicas, counts=dict(Counter(of_task)), states=shown))
    return tuple(found)


def counted_pods(job: Job) -> tuple[TaskPods, ...]:
    """Return the pods of each task as the controller of a cluster counts them."""
    found = []
    for task in job.spec.tasks:
        of_task = job.status.task_status_count.get(task.name)
        phases = {} if of_task is None else of_task.phase
        counts = {state: phases[phase] for phase, state in _COUNTED.items() if phases.get(phase)}
        found.append(TaskPods(name=task.name, total=task.replicas, counts=counts))
    return tuple(found)


def attempts(history: RunHistory, *, over: bool, outcome: Outcome) -> tuple[Attempt, ...]:
    """Return the attempts, the first one first. `outcome` is that of the run."""
    found = []
    phase = history.job.status.state.phase
    for each in history.attempts:
        is_last = each is history.attempts[-1]
        states = attempt_states(history, each.number, over=over)
        first = states.verdict.first if states.verdict is not None else None
        then = "" if each.acted is None else f"{each.acted.event} → {each.acted.action}"
        if then and is_last and phase == "Failed" and history.spent >= history.job.spec.max_retry > 0:
            then = f"no retry left for {then}"
        begin, end = history.span(each)
        how = _how(outcome, over=over) if is_last else "failed" if first is not None else "stopped"
        found.append(
            Attempt(
                number=each.number,
                outcome=how,
                start=each.start,
                end=each.end,
                ran=None if end is None else history.seconds_active(end, begin),
                first="" if first is None else first.pod,
                exit="" if first is None else first.exit,
                exit_code=None if first is None else first.code,
                last_line="" if first is None else first.line,
                then=then,
            )
        )
    return tuple(found)


def _how(outcome: Outcome, *, over: bool) -> str:
    """Return how the last attempt ended, or that it runs."""
    ends = {Outcome.SUCCEEDED: "completed", Outcome.FAILED: "failed"}
    return ends.get(outcome, "stopped" if over else "running")
