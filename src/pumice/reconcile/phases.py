"""The phase table: the life cycle of a job. No other code decides a phase.

Rule 1: every phase handles every action; ELSE handles the actions that a row does not name.
Rule 2: each pass makes at most one transition, and the status records every phase that the job enters.
Rule 3: Completed, Failed and Terminated are final: they have no transitions.

A row maps an action to the next phase: either a fixed phase, or a rule that computes it from the facts and may keep the
phase. It also has the effects of the transition: whether pods of the current version become outdated (`new_version`),
whether it applies only to the pods of the event (`targeted`), and whether it counts as a retry (`retry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from pumice.model.job import Job
from pumice.model.snapshot import PodPhase
from pumice.model.vocabulary import Action, Phase
from pumice.reconcile.state import PodCounts


class Facts(Struct, frozen=True):
    """The input of the rules."""

    job: Job
    counts: PodCounts
    exhausted: bool = False  # no retry is left
    to_delete: int = 0  # outdated pods, and the PodGroup of an earlier run
    pending_failure: bool = False  # a policy will act on a failure once its timeout has passed


class Rule(Struct, frozen=True):
    """Looks at the facts and says which of these phases comes next."""

    outcomes: tuple[Phase, ...]
    words: str
    ask: Callable[[Facts], Phase]

    def __call__(self, facts: Facts) -> Phase:
        return self.ask(facts)


class Move(Struct, frozen=True):
    to: Phase | Rule
    new_version: bool = False
    targeted: bool = False
    retry: bool = False

    def next_phase(self, facts: Facts) -> Phase:
        return self.to if isinstance(self.to, Phase) else self.to(facts)


def _started(facts: Facts) -> Phase:
    """Pending until the gang is there."""
    counts = facts.counts
    there = counts.running + counts.succeeded + counts.failed
    return Phase.RUNNING if facts.job.spec.min_available <= there else Phase.PENDING


def _finished(facts: Facts) -> Phase:
    """Running until enough pods succeeded, all pods are finished, or too few pods run for the gang."""
    spec, counts, replicas = facts.job.spec, facts.counts, facts.job.total_replicas
    if replicas == 0:
        return Phase.RUNNING
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return Phase.COMPLETED
    if counts.succeeded + counts.failed == replicas:
        outcome = _outcome(facts)
        # A policy will act on the failure, so this is not the end yet.
        return Phase.RUNNING if outcome is Phase.FAILED and facts.pending_failure else outcome
    if counts.pending > replicas - spec.min_available:
        return Phase.PENDING
    return Phase.RUNNING


def _outcome(facts: Facts) -> Phase:
    spec, counts = facts.job.spec, facts.counts
    least = {task.name: task.min_available for task in spec.tasks if task.min_available is not None}
    if spec.min_available >= sum(least.get(task.name, task.replicas) for task in spec.tasks):
        for task, needed in least.items():
            if task in counts.by_task and counts.of_task(task, PodPhase.SUCCEEDED) < needed:
                return Phase.FAILED
    if spec.min_success is not None:
        return Phase.FAILED  # fewer than minSuccess pods succeeded; otherwise _finished completes the job
    return Phase.COMPLETED if counts.succeeded >= spec.min_available else Phase.FAILED


def _restarted(facts: Facts) -> Phase:
    """Restarting until all old pods are being deleted and there is room for a new gang."""
    if facts.exhausted:
        return Phase.FAILED
    room = facts.job.total_replicas - facts.counts.terminating
    if facts.to_delete or room < facts.job.spec.min_available:
        return Phase.RESTARTING
    return Phase.PENDING


def drained(stays: Phase, ends: Phase) -> Rule:
    def rule(facts: Facts) -> Phase:
        return stays if facts.counts.alive else ends

    return Rule((stays, ends), f"{ends} when all pods have ended", rule)


started: Final = Rule((Phase.PENDING, Phase.RUNNING), "Running when `minAvailable` pods run or have finished", _started)
finished: Final = Rule(
    (Phase.RUNNING, Phase.COMPLETED, Phase.FAILED, Phase.PENDING),
    "Completed when `minSuccess` pods succeeded; when all pods are finished, Completed if enough of them succeeded, "
    "otherwise Failed; Pending when too many pods are pending for the gang",
    _finished,
)
restarted: Final = Rule(
    (Phase.RESTARTING, Phase.PENDING, Phase.FAILED),
    "Failed when no retry is left; Pending when all old pods are being deleted and those still terminating leave room "
    "for `minAvailable` new ones",
    _restarted,
)


Row = Mapping[Action | str | None, Move]

ELSE: Final = None
# Requested by activeDeadlineSeconds only.
DEADLINE: Final = "DeadlineExceeded"

_ABORT: Final = Move(Phase.ABORTING, new_version=True)
_TERMINATE: Final = Move(Phase.TERMINATING, new_version=True)
_COMPLETE: Final = Move(Phase.COMPLETING, new_version=True)
_RESTART: Final = Move(Phase.RESTARTING, new_version=True, retry=True)
_RESTART_SOME: Final = Move(Phase.RESTARTING, targeted=True, retry=True)
_RESUME: Final = Move(Phase.RESTARTING, new_version=True)
_FAIL: Final = Move(Phase.FAILED)

_ENDINGS: Final[Row] = {
    Action.ABORT_JOB: _ABORT,
    Action.TERMINATE_JOB: _TERMINATE,
    Action.COMPLETE_JOB: _COMPLETE,
    DEADLINE: _FAIL,
}
_CONTROL: Final[Row] = {
    **_ENDINGS,
    Action.RESTART_JOB: _RESTART,
    Action.RESTART_TASK: _RESTART_SOME,
    Action.RESTART_POD: _RESTART_SOME,
    Action.RESTART_PARTITION: _RESTART_SOME,
}

TABLE: Final[Mapping[Phase, Row]] = {
    Phase.PENDING: {**_CONTROL, ELSE: Move(started)},
    Phase.RUNNING: {**_CONTROL, ELSE: Move(finished)},
    Phase.RESTARTING: {
        **_ENDINGS,
        # A restart that grows while it is under way costs no second retry.
        Action.RESTART_JOB: Move(Phase.RESTARTING, new_version=True),
        Action.RESTART_TASK: Move(Phase.RESTARTING, targeted=True),
        Action.RESTART_POD: Move(Phase.RESTARTING, targeted=True),
        Action.RESTART_PARTITION: Move(Phase.RESTARTING, targeted=True),
        ELSE: Move(restarted),
    },
    Phase.ABORTING: {Action.RESUME_JOB: _RESUME, ELSE: Move(drained(Phase.ABORTING, Phase.ABORTED))},
    Phase.ABORTED: {Action.RESUME_JOB: _RESUME, ELSE: Move(Phase.ABORTED)},
    Phase.COMPLETING: {ELSE: Move(drained(Phase.COMPLETING, Phase.COMPLETED))},
    Phase.TERMINATING: {ELSE: Move(drained(Phase.TERMINATING, Phase.TERMINATED))},
    Phase.COMPLETED: {ELSE: Move(Phase.COMPLETED)},
    Phase.FAILED: {ELSE: Move(Phase.FAILED)},
    Phase.TERMINATED: {ELSE: Move(Phase.TERMINATED)},
}

FINAL: Final = frozenset((Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED))
# A Job in one of them changes only on request.
AT_REST: Final = FINAL | {Phase.ABORTED}


def answers(phase: Phase, action: Action | str) -> bool:
    """Whether the action has an effect of its own in this phase."""
    return action in TABLE[phase]


def move_for(phase: Phase, action: Action | str | None) -> Move:
    row = TABLE[phase]
    return row.get(action, row[ELSE])
