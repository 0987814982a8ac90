"""Command objects: obeyed exactly once, for the job that they were meant for."""

from __future__ import annotations

import pytest

from pumice.reconcile.decision import RemoveCommand
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.crashes import with_a_crash
from tests.scenarios.simulation import Simulation


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        pytest.param("AbortJob", ["Aborting", "Aborted"], id="abort"),
        pytest.param("TerminateJob", ["Terminating", "Terminated"], id="terminate"),
        pytest.param("CompleteJob", ["Completing", "Completed"], id="complete"),
        pytest.param("RestartJob", ["Restarting", "Pending"], id="restart"),
        pytest.param("ResumeJob", [], id="nothing to resume"),
        pytest.param("RestartPod", [], id="which pod?"),
        pytest.param("DanceJob", [], id="unknown"),
    ],
)
def test_a_command_is_obeyed_reported_and_removed(simulate: Simulate, action: str, phases: list[str]) -> None:
    sim = simulate(job(task("worker", 2))).run().command(action, name="mine").let_go()
    assert sim.phases == ["Pending", "Running", *phases]
    assert sim.world.commands[sim.key] == {}
    assert sim.messages("CommandIssued") == [f"Command mine: {action}"]
    assert sim.retries == (0, 0)  # a Command spends nothing
    assert not [key for key in sim.status.controlled_resources if "obeyed" in key]


def test_a_command_for_another_job_is_ignored_and_removed() -> None:
    sim = Simulation(job(task("worker", 2))).run().command("AbortJob", uid="of-an-earlier-job", name="late")
    assert sim.phase == "Running"
    assert sim.world.commands[sim.key] == {}
    assert sim.messages("CommandIgnored") == [
        "Command late is for an earlier job of this name and is ignored",
    ]


def test_a_command_without_uid_means_the_job_of_that_name() -> None:
    assert Simulation(job(task("worker", 1))).run().command("AbortJob", uid="").phase == "Aborted"


def test_commands_are_obeyed_in_their_order(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run().down()
    sim.command("AbortJob", name="z-first").wait(1)
    sim.command("ResumeJob", name="a-second").up().let_go().run()
    assert sim.phases == [
        "Pending",
        "Running",
        "Aborting",
        "Restarting",
        "Pending",
        "Running",
    ]
    assert sim.messages("CommandIssued") == ["Command z-first: AbortJob", "Command a-second: ResumeJob"]


def test_a_command_that_cannot_be_removed_is_obeyed_once(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run().refuse(RemoveCommand).command("RestartJob").let_go()
    # Whoever is refused something takes his time with the rest.
    sim.wait(10).run().wait(100).restart_controller().wait(100)
    assert sim.status.version == 1
    assert sim.phase == "Running"
    sim.refuse()
    assert sim.world.commands[sim.key] == {}
    assert sim.status.version == 1


@pytest.mark.parametrize("cut", range(12))
def test_a_command_is_obeyed_once_wherever_the_controller_dies(cut: int) -> None:
    """The controller is cut off after its n-th call, and started again."""
    sim = Simulation(job(task("worker", 2), on("PodFailed", "RestartJob"))).run()
    with_a_crash(sim, cut, lambda: sim.command("RestartJob"))
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]
    assert sim.status.version == 1
    assert sim.retries == (0, 0)
    assert sim.world.commands[sim.key] == {}
