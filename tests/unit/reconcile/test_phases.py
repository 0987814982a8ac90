"""Every phase times every action, and every branch of the rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pumice.model.job import Job
from pumice.model.vocabulary import Action, Phase
from pumice.reconcile.phases import (
    DEADLINE,
    ELSE,
    FINAL,
    TABLE,
    Facts,
    Move,
    Rule,
    answers,
    drained,
    finished,
    move_for,
    restarted,
    started,
)
from pumice.reconcile.state import PodCounts
from tests.builders import a_job, a_task

ACTIONS: tuple[str | None, ...] = (*Action, DEADLINE, ELSE, "Nonsense")
LIVELY = (Phase.PENDING, Phase.RUNNING)
ENDINGS = {
    Action.ABORT_JOB: Phase.ABORTING,
    Action.TERMINATE_JOB: Phase.TERMINATING,
    Action.COMPLETE_JOB: Phase.COMPLETING,
}
TARGETED = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)


def expected(phase: Phase, action: str | None) -> Phase | str:
    """The table of the issue, in words: the phase that follows, or the name of the rule that is asked."""
    if phase in FINAL:
        return phase
    if phase in (Phase.ABORTING, Phase.ABORTED) and action == Action.RESUME_JOB:
        return Phase.RESTARTING
    if phase in (*LIVELY, Phase.RESTARTING):
        if action == DEADLINE:
            return Phase.FAILED
        if action in ENDINGS:
            return ENDINGS[Action(action)]
        if action in (Action.RESTART_JOB, *TARGETED):
            return Phase.RESTARTING
    return Phase.ABORTED if phase is Phase.ABORTED else "rule"


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_phase_answers_every_action(phase: Phase, action: str | None) -> None:
    move = move_for(phase, action)
    assert ("rule" if isinstance(move.to, Rule) else move.to) == expected(phase, action)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("action", ACTIONS)
def test_what_a_move_costs(phase: Phase, action: str | None) -> None:
    move = move_for(phase, action)
    restarts = phase in (*LIVELY, Phase.RESTARTING)
    assert move.targeted == (restarts and action in TARGETED)
    # A restart that grows while it is under way has been paid for.
    assert move.retry == (phase in LIVELY and action in (Action.RESTART_JOB, *TARGETED))
    full_kill = (restarts and action in (Action.RESTART_JOB, *ENDINGS)) or (
        phase in (Phase.ABORTING, Phase.ABORTED) and action == Action.RESUME_JOB
    )
    assert move.new_version == full_kill


@pytest.mark.parametrize("phase", Phase)
def test_an_action_means_something_where_the_row_names_it(phase: Phase) -> None:
    assert {action for action in Action if answers(phase, action)} == set(TABLE[phase]) - {ELSE, DEADLINE}


@pytest.mark.parametrize("phase", Phase)
def test_a_rule_may_always_say_stay(phase: Phase) -> None:
    rule = TABLE[phase][ELSE].to
    assert rule == phase or (isinstance(rule, Rule) and phase in rule.outcomes)


def facts(job: Job, **known: Any) -> Facts:
    """Facts by their names, the counts among them."""
    own = {name: known.pop(name) for name in ("exhausted", "to_delete", "pending_failure") if name in known}
    return Facts(job, PodCounts(**known), **own)


def four(**spec: Any) -> Job:
    return a_job(a_task("a", 2), a_task("b", 2), **{"min_available": 3, **spec})


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        pytest.param({"pending": 4}, Phase.PENDING, id="none runs"),
        pytest.param({"running": 2, "pending": 2}, Phase.PENDING, id="too few"),
        pytest.param({"running": 3, "pending": 1}, Phase.RUNNING, id="enough"),
        pytest.param({"running": 1, "succeeded": 1, "failed": 1}, Phase.RUNNING, id="finished ones count"),
        pytest.param({"running": 2, "unknown": 2}, Phase.PENDING, id="unknown ones do not"),
    ],
)
def test_started(counts: dict[str, int], phase: Phase) -> None:
    assert started(facts(four(), **counts)) is phase


@pytest.mark.parametrize(
    ("spec", "counts", "phase"),
    [
        pytest.param({}, {"running": 4}, Phase.RUNNING, id="all run"),
        pytest.param({}, {"running": 2, "pending": 2}, Phase.PENDING, id="the gang has fallen apart"),
        pytest.param({}, {"running": 3, "pending": 1}, Phase.RUNNING, id="one more is wanted but not needed"),
        pytest.param({}, {"succeeded": 3, "failed": 1}, Phase.COMPLETED, id="enough succeeded"),
        pytest.param({}, {"succeeded": 2, "failed": 2}, Phase.FAILED, id="too few succeeded"),
        pytest.param(
            {},
            {"succeeded": 2, "failed": 2, "pending_failure": True},
            Phase.RUNNING,
            id="a policy will see to it",
        ),
        pytest.param(
            {}, {"succeeded": 3, "failed": 1, "pending_failure": True}, Phase.COMPLETED, id="done all the same"
        ),
        pytest.param({}, {"succeeded": 3, "unknown": 1}, Phase.RUNNING, id="unknown is not finished"),
        pytest.param({"min_success": 2}, {"succeeded": 2, "running": 2}, Phase.COMPLETED, id="minSuccess"),
        pytest.param({"min_success": 2}, {"succeeded": 1, "running": 3}, Phase.RUNNING, id="minSuccess not yet"),
        pytest.param({"min_success": 4}, {"succeeded": 3, "failed": 1}, Phase.FAILED, id="minSuccess missed"),
    ],
)
def test_finished(spec: dict[str, Any], counts: dict[str, Any], phase: Phase) -> None:
    assert finished(facts(four(**spec), **counts)) is phase


def test_a_job_without_pods_goes_on() -> None:
    assert finished(facts(a_job(a_task("a", 0)))) is Phase.RUNNING


@pytest.mark.parametrize(
    ("least", "job_least", "done", "phase"),
    [
        pytest.param((1, 1), 2, {"a": 1, "b": 1}, Phase.COMPLETED, id="each task has enough"),
        pytest.param((1, 1), 2, {"a": 2, "b": 0}, Phase.FAILED, id="a task has too few"),
        pytest.param((1, 1), 1, {"a": 2, "b": 0}, Phase.COMPLETED, id="the job asks for less than its tasks"),
        pytest.param((2, None), 4, {"a": 2, "b": 1}, Phase.FAILED, id="only the job has too few"),
        pytest.param((1, 0), 1, {"a": 1}, Phase.COMPLETED, id="a task that nobody counted"),
    ],
)
def test_the_least_of_each_task(
    least: tuple[int | None, int | None], job_least: int, done: dict[str, int], phase: Phase
) -> None:
    job = a_job(a_task("a", 2, min_available=least[0]), a_task("b", 2, min_available=least[1]), min_available=job_least)
    by_task = {task: Counter({"Succeeded": count, "Failed": 2 - count}) for task, count in done.items()}
    succeeded = sum(done.values())
    counts = {"succeeded": succeeded, "failed": 4 - succeeded, "by_task": by_task}
    assert finished(facts(job, **counts)) is phase


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        pytest.param({}, Phase.PENDING, id="all are gone"),
        pytest.param({"exhausted": True}, Phase.FAILED, id="no retry is left"),
        pytest.param({"to_delete": 1}, Phase.RESTARTING, id="some pods are not deleted yet"),
        pytest.param({"terminating": 2}, Phase.RESTARTING, id="no room for a gang"),
        pytest.param({"terminating": 1}, Phase.PENDING, id="room for a gang"),
    ],
)
def test_restarted(counts: dict[str, Any], phase: Phase) -> None:
    assert restarted(facts(four(), **counts)) is phase


@pytest.mark.parametrize(
    ("counts", "phase"),
    [
        pytest.param({"succeeded": 2, "failed": 1}, Phase.ABORTED, id="finished pods do not matter"),
        pytest.param({"running": 1}, Phase.ABORTING, id="one runs"),
        pytest.param({"pending": 1}, Phase.ABORTING, id="one is pending"),
        pytest.param({"unknown": 1}, Phase.ABORTING, id="one is out of sight"),
        pytest.param({"terminating": 1}, Phase.ABORTING, id="one is on its way out"),
    ],
)
def test_drained(counts: dict[str, int], phase: Phase) -> None:
    assert drained(Phase.ABORTING, Phase.ABORTED)(facts(four(), **counts)) is phase


def test_a_move_to_a_phase_needs_no_rule() -> None:
    assert Move(Phase.FAILED).next_phase(facts(four())) is Phase.FAILED
