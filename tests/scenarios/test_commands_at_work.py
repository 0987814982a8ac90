"""Command objects: obeyed exactly once, for the job that they were meant for."""

from __future__ import annotations

import pytest

from pumice.reconcile.decision import RemoveCommand
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.crashes import with_a_crash
from tests.scenarios.stage import Stage


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
def test_a_command_is_obeyed_reported_and_removed(stage: MakeStage, action: str, phases: list[str]) -> None:
    play = stage(job(task("worker", 2))).run().command(action, name="mine").let_go()
    assert play.phases == ["Pending", "Running", *phases]
    assert play.world.commands[play.key] == {}
    assert play.messages("CommandIssued") == [f"Command mine: {action}"]
    assert play.retries == (0, 0)  # a Command spends nothing
    assert not [key for key in play.status.controlled_resources if "obeyed" in key]


def test_a_command_for_another_job_is_ignored_and_removed() -> None:
    play = Stage(job(task("worker", 2))).run().command("AbortJob", uid="of-an-earlier-job", name="late")
    assert play.phase == "Running"
    assert play.world.commands[play.key] == {}
    assert play.messages("CommandIgnored") == [
        "Command late is for an earlier job of this name and is ignored",
    ]


def test_a_command_without_uid_means_the_job_of_that_name() -> None:
    assert Stage(job(task("worker", 1))).run().command("AbortJob", uid="").phase == "Aborted"


def test_commands_are_obeyed_in_their_order(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1))).run().down()
    play.command("AbortJob", name="z-first").wait(1)
    play.command("ResumeJob", name="a-second").up().let_go().run()
    assert play.phases == [
        "Pending",
        "Running",
        "Aborting",
        "Restarting",
        "Pending",
        "Running",
    ]
    assert play.messages("CommandIssued") == ["Command z-first: AbortJob", "Command a-second: ResumeJob"]


def test_a_command_that_cannot_be_removed_is_obeyed_once(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1))).run().refuse(RemoveCommand).command("RestartJob").let_go()
    # Whoever is refused something takes his time with the rest.
    play.wait(10).run().wait(100).restart_controller().wait(100)
    assert play.status.version == 1
    assert play.phase == "Running"
    play.refuse()
    assert play.world.commands[play.key] == {}
    assert play.status.version == 1


@pytest.mark.parametrize("cut", range(12))
def test_a_command_is_obeyed_once_wherever_the_controller_dies(cut: int) -> None:
    """The controller is cut off after its n-th call, and started again."""
    play = Stage(job(task("worker", 2), on("PodFailed", "RestartJob"))).run()
    with_a_crash(play, cut, lambda: play.command("RestartJob"))
    assert play.phases == ["Pending", "Running", "Restarting", "Pending"]
    assert play.status.version == 1
    assert play.retries == (0, 0)
    assert play.world.commands[play.key] == {}
