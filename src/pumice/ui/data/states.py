"""The state of each pod of a run, which pod failed first, the verdict, and what earlier attempts did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from pumice.client.observer import Observed
from pumice.diagnosis.failures import Failure
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.pod_ends import how_it_ended, one_line
from pumice.diagnosis.verdict import Verdict, last_end
from pumice.diagnosis.verdict_lines import heading_text, verdict_lines
from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.model.snapshot import FINISHED_PODS, ObservedPod, PodPhase
from pumice.reconcile.consequences import acted_policy
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
_MOST_FOLLOWERS: Final = 64


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
    failed_names = {each.pod.short_name for each in found.failures if each.pod.phase is PodPhase.FAILED}
    over = over or attempt < history.attempt
    followers = {each.pod for each in found.verdict.followers} if found.verdict is not None else set()
    for life in lives:
        if life.name not in failed_names:
            found.states[life.name] = _state(history, life, over=over)
        elif found.verdict is not None and found.verdict.pod == life.name:
            found.states[life.name] = PodState.FIRST
        else:
            found.states[life.name] = PodState.FOLLOWED if life.name in followers else PodState.FAILED
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
        how = "failed" if first is not None else "stopped"
        if is_last:
            ends = {Outcome.SUCCEEDED: "completed", Outcome.FAILED: "failed"}
            how = ends.get(outcome, "stopped" if over else "running")
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


def verdict(seen: Observed, states: AttemptStates) -> Verdict | None:
    """Return the verdict; None if nothing failed, and the run has no verdict."""
    history, status = seen.history, seen.status
    found = status.verdict or states.verdict
    if found is None or not heading_text(found):
        return None
    if status.verdict is None:
        # The run has not ended: its verdict has neither the policy nor a command yet.
        if history.fired:
            acted = history.fired[-1].event
            found = replace(found, policy=acted_policy(acted, history.source(acted.policy)))
        words = ("pumice logs", f"{history.record.ref}/{found.pod}", seen.flags, "--tail 30")
        found = replace(found, next=" ".join(filter(None, words))) if found.pod else found
    shown = replace(found, followers=found.followers[:_MOST_FOLLOWERS], independent=found.independent[:_MOST_FOLLOWERS])
    return replace(shown, text="\n".join(verdict_lines(found)))


def earlier_attempts(history: RunHistory, found: Verdict | None) -> str:
    """Say whether earlier attempts failed the same way."""
    if found is None or found.first is None:
        return ""
    first, earlier = found.first, []
    for each in history.attempts:
        if each.number < (found.attempt or history.attempt):
            failures = attempt_states(history, each.number, over=True).failures
            earlier += [failures[0]] if failures else []
    if not earlier:
        return ""
    pods = {first.pod, *(each.pod.short_name for each in earlier)}
    lines = (first.line, *(one_line(each.end.last_line) for each in earlier))
    # Two lines that differ only in numbers say the same.
    said = {"".join("0" if letter.isdigit() else letter for letter in line) for line in lines}
    if len(pods) == 1:
        same = ", with the same last line" if len(said) == 1 and first.line else ""
        return f"{first.pod} failed first in all {len(earlier) + 1} attempts{same}"
    parts = [f"attempt {each.attempt}: {each.pod.short_name}, {how_it_ended(each.end)}" for each in earlier[-3:]]
    return "; ".join(parts)
