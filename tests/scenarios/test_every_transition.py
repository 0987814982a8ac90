"""Every phase and every action: the table against a grid written by hand, and every transition reached by a story."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pumice.model.vocabulary import Action, Phase
from pumice.reconcile import phases
from pumice.reconcile.phases import DEADLINE, ELSE, FINAL, TABLE, Move, Rule, move_for
from tests.scenarios.builders import job, on, task
from tests.scenarios.simulation import Simulation

# In the words of the specification. `!` makes the pods so far old, `~` means some of them, `+` counts a retry;
# words in small letters are rules that look at the facts.
ACTIONS = "SyncJob EnqueueJob RestartJob RestartTask RestartPod RestartPartition AbortJob TerminateJob CompleteJob"
ACTIONS += " ResumeJob DeadlineExceeded DanceJob"
GRID = """
Pending     started   started   Restarting!+ Restarting~+ Restarting~+ Restarting~+ Aborting! Terminating! Completing! started   Failed    started
Running     finished  finished  Restarting!+ Restarting~+ Restarting~+ Restarting~+ Aborting! Terminating! Completing! finished  Failed    finished
Restarting  restarted restarted Restarting!  Restarting~  Restarting~  Restarting~  Aborting! Terminating! Completing! restarted Failed    restarted
Aborting    drained   drained   drained      drained      drained      drained      drained   drained      drained     Restarting! drained drained
Aborted     Aborted   Aborted   Aborted      Aborted      Aborted      Aborted      Aborted   Aborted      Aborted     Restarting! Aborted Aborted
Completing  drained   drained   drained      drained      drained      drained      drained   drained      drained     drained   drained   drained
Terminating drained   drained   drained      drained      drained      drained      drained   drained      drained     drained   drained   drained
Completed   Completed Completed Completed    Completed    Completed    Completed    Completed Completed    Completed   Completed Completed Completed
Failed      Failed    Failed    Failed       Failed       Failed       Failed       Failed    Failed       Failed      Failed    Failed    Failed
Terminated  Terminated Terminated Terminated Terminated   Terminated   Terminated   Terminated Terminated  Terminated  Terminated Terminated Terminated
"""  # noqa: E501 - a grid reads best in columns
RULES = {"started": phases.started, "finished": phases.finished, "restarted": phases.restarted}
DRAINED = {
    Phase.ABORTING: (Phase.ABORTING, Phase.ABORTED),
    Phase.COMPLETING: (Phase.COMPLETING, Phase.COMPLETED),
    Phase.TERMINATING: (Phase.TERMINATING, Phase.TERMINATED),
}
Transition = tuple[Phase, str, Phase]


def _cells() -> list[tuple[Phase, str, str]]:
    rows = [line.split() for line in GRID.strip().splitlines()]
    return [
        (Phase(row[0]), action, word) for row in rows for action, word in zip(ACTIONS.split(), row[1:], strict=True)
    ]


@pytest.mark.parametrize(("phase", "action", "word"), _cells())
def test_the_table_answers_as_the_specification_says(phase: Phase, action: str, word: str) -> None:
    move = move_for(phase, action)
    name = word.rstrip("!~+")
    assert (move.new_version, move.targeted, move.retry) == ("!" in word, "~" in word, "+" in word)
    if name == "drained":
        assert isinstance(move.to, Rule)
        assert move.to.outcomes == DRAINED[phase]
    else:
        assert move.to == (RULES[name] if name in RULES else Phase(name))


def test_the_grid_is_complete() -> None:
    assert {phase for phase, _, _ in _cells()} == set(Phase)
    assert {action for _, action, _ in _cells()} == {*map(str, Action), DEADLINE, "DanceJob"}


def test_final_phases_have_no_transitions() -> None:
    assert {phase for phase in Phase if all(_outcomes(move) == {phase} for move in TABLE[phase].values())} == {
        *FINAL,
    }
    assert {Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED} == FINAL


# --- every transition, reached by a story


def _outcomes(move: Move) -> set[Phase]:
    return {move.to} if isinstance(move.to, Phase) else set(move.to.outcomes)


def _transitions() -> set[Transition]:
    return {
        (phase, str(action or "-"), after)
        for phase, row in TABLE.items()
        for action, move in row.items()
        for after in _outcomes(move)
    }


TARGETED = {Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION}
ASKED = [(phase, action) for phase, row in TABLE.items() for action in row if action is not ELSE]


def _simulation_in(phase: Phase, action: str) -> Simulation:
    """A job in this phase, with a policy that leads to the action when a container of a pod ends with 2."""
    from pumice.model.job import PartitionPolicy

    policies = [on("", action, exit_code=2)] if action in TARGETED else []
    partitions = PartitionPolicy(total_partitions=2, partition_size=2, min_partitions=2)
    workers = task("worker", 4, partition_policy=partitions)
    wanted = job(workers, task("ps", 2), on("", "RestartTask", exit_code=1), *policies, active_deadline_seconds=100)
    sim = Simulation(wanted, slow=True).run()
    ways: dict[Phase, Callable[[], object]] = {
        Phase.PENDING: lambda: sim.evict("ps-1").let_go(),
        Phase.RUNNING: lambda: None,
        Phase.RESTARTING: lambda: sim.fail("ps-0", 1),
        Phase.ABORTING: lambda: sim.command("AbortJob"),
        Phase.ABORTED: lambda: sim.command("AbortJob").let_go(),
    }
    ways[phase]()
    assert sim.phase == phase
    return sim


@pytest.mark.parametrize(("phase", "action"), ASKED)
def test_what_is_asked_for_is_done(phase: Phase, action: str) -> None:
    sim = _simulation_in(phase, action)
    before, status = len(sim.phases), sim.status
    if action == DEADLINE:
        sim.wait(100)
    elif action in TARGETED:
        sim.fail("worker-0", 2)
    else:
        sim.command(action)
    move = TABLE[phase][action]
    assert isinstance(move.to, Phase)
    assert [*sim.phases[before:], phase][0] == move.to
    assert sim.status.version == status.version + move.new_version
    asked_by_policy = action in TARGETED
    assert sim.status.retry_count == status.retry_count + (move.retry and asked_by_policy)


def _aborting() -> Simulation:
    return Simulation(job(task("worker", 2)), slow=True).run().command("AbortJob")


def _ending(action: str) -> Simulation:
    return Simulation(job(task("worker", 2)), slow=True).run().command(action)


def _restarting(most: int = 3) -> Simulation:
    return (
        Simulation(job(task("worker", 2), on("PodFailed", "RestartJob"), max_retry=most), slow=True)
        .run()
        .fail("worker-0")
    )


def _ended(sim: Simulation) -> Simulation:
    return sim.let_go().restart_controller()


STORIES: dict[Transition, Callable[[], Simulation]] = {
    (Phase.PENDING, "-", Phase.PENDING): lambda: Simulation(job(task("worker", 2))).run("worker-0"),
    (Phase.PENDING, "-", Phase.RUNNING): lambda: Simulation(job(task("worker", 2))).run(),
    (Phase.RUNNING, "-", Phase.RUNNING): lambda: Simulation(job(task("worker", 2))).run().succeed("worker-0"),
    (Phase.RUNNING, "-", Phase.COMPLETED): lambda: Simulation(job(task("worker", 2))).run().succeed(),
    (Phase.RUNNING, "-", Phase.FAILED): lambda: Simulation(job(task("worker", 1))).run().fail("worker-0"),
    (Phase.RUNNING, "-", Phase.PENDING): lambda: Simulation(job(task("worker", 2))).run().evict("worker-0"),
    (Phase.RESTARTING, "-", Phase.RESTARTING): lambda: _restarting().restart_controller(),
    (Phase.RESTARTING, "-", Phase.PENDING): lambda: _restarting().let_go(),
    (Phase.RESTARTING, "-", Phase.FAILED): lambda: _restarting(1),
    (Phase.ABORTING, "-", Phase.ABORTING): lambda: _aborting().let_go("worker-0"),
    (Phase.ABORTING, "-", Phase.ABORTED): lambda: _aborting().let_go(),
    (Phase.ABORTED, "-", Phase.ABORTED): lambda: _ended(_aborting()),
    (Phase.COMPLETING, "-", Phase.COMPLETING): lambda: _ending("CompleteJob").let_go("worker-0"),
    (Phase.COMPLETING, "-", Phase.COMPLETED): lambda: _ending("CompleteJob").let_go(),
    (Phase.TERMINATING, "-", Phase.TERMINATING): lambda: _ending("TerminateJob").let_go("worker-0"),
    (Phase.TERMINATING, "-", Phase.TERMINATED): lambda: _ending("TerminateJob").let_go(),
    (Phase.COMPLETED, "-", Phase.COMPLETED): lambda: _ended(_ending("CompleteJob")),
    (Phase.FAILED, "-", Phase.FAILED): lambda: _ended(_restarting(1)),
    (Phase.TERMINATED, "-", Phase.TERMINATED): lambda: _ended(_ending("TerminateJob")),
}


@pytest.mark.parametrize("transition", STORIES, ids=lambda one: f"{one[0]} to {one[2]}")
def test_transitions_without_a_request_follow_from_the_facts(transition: Transition) -> None:
    before, _, after = transition
    sim = STORIES[transition]()
    assert sim.phase == after
    assert before in sim.phases
    if before is not after:
        assert (before, after) in zip(sim.phases, sim.phases[1:], strict=False)


def test_every_transition_of_the_table_is_reached() -> None:
    asked = {(phase, str(action), after) for phase, action in ASKED for after in _outcomes(TABLE[phase][action])}
    assert asked | set(STORIES) == _transitions()


# --- every phase and every Command

WORDS = ("SyncJob", "RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob", "RestartPod", "DanceJob")
OBEYED = """
Pending     -          Restarting Aborting Terminating Completing -          - -
Running     -          Restarting Aborting Terminating Completing -          - -
Restarting  -          -          Aborting Terminating Completing -          - -
Aborting    -          -          -        -           -          Restarting - -
Aborted     -          -          -        -           -          Restarting - -
Completing  -          -          -        -           -          -          - -
Terminating -          -          -        -           -          -          - -
Completed   -          -          -        -           -          -          - -
Failed      -          -          -        -           -          -          - -
Terminated  -          -          -        -           -          -          - -
"""
WAYS: dict[str, Callable[[], Simulation]] = {
    "Pending": lambda: Simulation(job(task("worker", 2)), slow=True),
    "Running": lambda: Simulation(job(task("worker", 2)), slow=True).run(),
    "Restarting": _restarting,
    "Aborting": _aborting,
    "Aborted": lambda: _aborting().let_go(),
    "Completing": lambda: _ending("CompleteJob"),
    "Terminating": lambda: _ending("TerminateJob"),
    "Completed": lambda: _ending("CompleteJob").let_go(),
    "Failed": lambda: _restarting(1).let_go(),
    "Terminated": lambda: _ending("TerminateJob").let_go(),
}


@pytest.mark.parametrize(
    ("phase", "action", "expected"),
    [
        (row.split()[0], action, word)
        for row in OBEYED.strip().splitlines()
        for action, word in zip(WORDS, row.split()[1:], strict=True)
    ],
)
def test_every_command_in_every_phase(phase: str, action: str, expected: str) -> None:
    sim = WAYS[phase]()
    assert sim.phase == phase
    before = len(sim.phases)
    sim.command(action)
    assert [*sim.phases[before:], "-"][0] == expected
    assert sim.world.commands[sim.key] == {}
    assert sim.retries == ((1, 1) if phase in {"Restarting", "Failed"} else (0, 0))
