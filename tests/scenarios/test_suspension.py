"""Stopped and resumed: by Command objects, by `spec.suspend`, by policies."""

from __future__ import annotations

import pytest

from pumice.reconcile.decision import DeletePod
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}


def _stop(play: Stage, how: str) -> Stage:
    return play.command("AbortJob") if how == "command" else play.suspend()


def _resume(play: Stage, how: str) -> Stage:
    return play.command("ResumeJob") if how == "command" else play.suspend(False)


@pytest.mark.parametrize("how", ["command", "suspend"])
def test_stopped_and_resumed(stage: MakeStage, how: str) -> None:
    """Succeeded pods stay, failed ones run again, keys are the same, and nothing of maxRetry is spent."""
    play = stage(job(task("worker", 4), plugins=PLUGINS)).run().succeed("worker-0").fail("worker-1")
    done, keys = play.uids["worker-0"], play.owned_objects
    _stop(play, how)
    if play.slow:
        assert play.phase == "Aborting"
        assert play.counts == {"succeeded": 1, "failed": 1, "terminating": 2}
    play.let_go()
    assert play.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert play.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    assert play.counts == {"succeeded": 1, "failed": 1}
    assert play.reason[0] == ("Command" if how == "command" else "Suspended")
    assert play.owned_objects == keys
    assert not play.has_group()
    assert play.status.version == 1

    _resume(play, how)
    assert play.phases[-2:] == ["Restarting", "Pending"]
    assert play.pods == {"worker-0": "Succeeded", **{f"worker-{index}": "Pending" for index in (1, 2, 3)}}
    assert play.counts == {"succeeded": 1, "pending": 3}
    assert play.uids["worker-0"] == done
    assert play.owned_objects == keys
    assert play.has_group()
    assert play.retries == (0, 0)
    assert play.status.version == 2
    play.run()
    assert play.phase == "Running"
    play.succeed()
    assert play.phase == "Completed"
    assert play.counts == {"succeeded": 4}


@pytest.mark.parametrize("how", ["command", "suspend"])
def test_resumed_before_it_was_stopped(stage: MakeStage, how: str) -> None:
    play = stage(job(task("worker", 2)), slow=True).run()
    _stop(play, how)
    assert play.phase == "Aborting"
    _resume(play, how)
    assert play.phase == "Restarting"
    assert play.pods == {"worker-0": "Terminating", "worker-1": "Terminating"}
    play.let_go().run()
    assert play.phases == ["Pending", "Running", "Aborting", "Restarting", "Pending", "Running"]
    assert play.retries == (0, 0)


def test_what_succeeded_before_is_not_run_again_though_its_pod_is_removed(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run().succeed("worker-0").suspend().let_go()
    play.evict("worker-0").suspend(False).run()
    assert play.pods == {"worker-1": "Running"}
    assert play.counts == {"running": 1, "succeeded": 1}
    play.succeed("worker-1")
    assert play.phase == "Completed"


def test_a_command_does_not_resume_what_the_spec_suspends(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1))).run().suspend().let_go().command("ResumeJob")
    assert play.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert play.world.commands[play.key] == {}
    assert play.suspend(False).phase == "Pending"


def test_the_spec_takes_over_what_a_command_stopped(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1))).run().command("AbortJob").let_go()
    assert play.suspend(False).phase == "Aborted"  # it was never true: that resumes nothing
    assert play.suspend().phase == "Aborted"
    assert play.suspend(False).phase == "Pending"


def test_a_policy_aborts(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", "AbortJob"))).run().fail("worker-0", 1).let_go()
    assert play.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert play.reason[0] == "PodFailed"
    assert play.restart_controller().phase == "Aborted"
    play.command("ResumeJob").run()
    assert play.phase == "Running"
    assert play.retries == (0, 0)


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        pytest.param("AbortJob", ["Aborting", "Aborted"], id="abort"),
        pytest.param("TerminateJob", ["Terminating", "Terminated"], id="terminate"),
        pytest.param("CompleteJob", ["Completing", "Completed"], id="complete"),
    ],
)
def test_obeyed_while_restarting(action: str, phases: list[str]) -> None:
    play = Stage(job(task("worker", 2), on("PodFailed", "RestartJob")), slow=True).run().fail("worker-0")
    assert play.phase == "Restarting"
    play.command(action).let_go()
    assert play.phases == ["Pending", "Running", "Restarting", *phases]
    assert play.pods == {}


def test_what_a_restart_voided_stays_void_when_the_job_is_stopped_meanwhile(stage: MakeStage) -> None:
    """The controller dies between deciding to restart and removing the pods; before it is back, the job is aborted."""
    play = stage(job(task("worker", 2), on("PodFailed", "RestartJob"))).run().succeed("worker-0")
    play.refuse(DeletePod).fail("worker-1")
    assert play.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    play.command("AbortJob").refuse()
    assert play.phase == "Aborted"
    play.command("ResumeJob")
    assert play.counts == {"pending": 2}
