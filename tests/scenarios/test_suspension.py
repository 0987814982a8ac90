"""Stopped and resumed: by Command objects, by `spec.suspend`, by policies."""

from __future__ import annotations

import pytest

from pumice.reconcile.decision import DeletePod
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}


def _stop(sim: Simulation, how: str) -> Simulation:
    return sim.command("AbortJob") if how == "command" else sim.suspend()


def _resume(sim: Simulation, how: str) -> Simulation:
    return sim.command("ResumeJob") if how == "command" else sim.suspend(False)


@pytest.mark.parametrize("how", ["command", "suspend"])
def test_stopped_and_resumed(simulate: Simulate, how: str) -> None:
    """Succeeded pods stay, failed ones run again, keys are the same, and nothing of maxRetry is spent."""
    sim = simulate(job(task("worker", 4), plugins=PLUGINS)).run().succeed("worker-0").fail("worker-1")
    done, keys = sim.uids["worker-0"], sim.owned_objects
    _stop(sim, how)
    if sim.slow:
        assert sim.phase == "Aborting"
        assert sim.counts == {"succeeded": 1, "failed": 1, "terminating": 2}
    sim.let_go()
    assert sim.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert sim.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    assert sim.counts == {"succeeded": 1, "failed": 1}
    assert sim.reason[0] == ("Command" if how == "command" else "Suspended")
    assert sim.owned_objects == keys
    assert not sim.has_group()
    assert sim.status.version == 1

    _resume(sim, how)
    assert sim.phases[-2:] == ["Restarting", "Pending"]
    assert sim.pods == {"worker-0": "Succeeded", **{f"worker-{index}": "Pending" for index in (1, 2, 3)}}
    assert sim.counts == {"succeeded": 1, "pending": 3}
    assert sim.uids["worker-0"] == done
    assert sim.owned_objects == keys
    assert sim.has_group()
    assert sim.retries == (0, 0)
    assert sim.status.version == 2
    sim.run()
    assert sim.phase == "Running"
    sim.succeed()
    assert sim.phase == "Completed"
    assert sim.counts == {"succeeded": 4}


@pytest.mark.parametrize("how", ["command", "suspend"])
def test_resumed_before_it_was_stopped(simulate: Simulate, how: str) -> None:
    sim = simulate(job(task("worker", 2)), slow=True).run()
    _stop(sim, how)
    assert sim.phase == "Aborting"
    _resume(sim, how)
    assert sim.phase == "Restarting"
    assert sim.pods == {"worker-0": "Terminating", "worker-1": "Terminating"}
    sim.let_go().run()
    assert sim.phases == ["Pending", "Running", "Aborting", "Restarting", "Pending", "Running"]
    assert sim.retries == (0, 0)


def test_what_succeeded_before_is_not_run_again_though_its_pod_is_removed(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run().succeed("worker-0").suspend().let_go()
    sim.evict("worker-0").suspend(False).run()
    assert sim.pods == {"worker-1": "Running"}
    assert sim.counts == {"running": 1, "succeeded": 1}
    sim.succeed("worker-1")
    assert sim.phase == "Completed"


def test_a_command_does_not_resume_what_the_spec_suspends(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run().suspend().let_go().command("ResumeJob")
    assert sim.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert sim.world.commands[sim.key] == {}
    assert sim.suspend(False).phase == "Pending"


def test_the_spec_takes_over_what_a_command_stopped(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run().command("AbortJob").let_go()
    assert sim.suspend(False).phase == "Aborted"  # it was never true: that resumes nothing
    assert sim.suspend().phase == "Aborted"
    assert sim.suspend(False).phase == "Pending"


def test_a_policy_aborts(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", "AbortJob"))).run().fail("worker-0", 1).let_go()
    assert sim.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert sim.reason[0] == "PodFailed"
    assert sim.restart_controller().phase == "Aborted"
    sim.command("ResumeJob").run()
    assert sim.phase == "Running"
    assert sim.retries == (0, 0)


@pytest.mark.parametrize(
    ("action", "phases"),
    [
        pytest.param("AbortJob", ["Aborting", "Aborted"], id="abort"),
        pytest.param("TerminateJob", ["Terminating", "Terminated"], id="terminate"),
        pytest.param("CompleteJob", ["Completing", "Completed"], id="complete"),
    ],
)
def test_obeyed_while_restarting(action: str, phases: list[str]) -> None:
    sim = Simulation(job(task("worker", 2), on("PodFailed", "RestartJob")), slow=True).run().fail("worker-0")
    assert sim.phase == "Restarting"
    sim.command(action).let_go()
    assert sim.phases == ["Pending", "Running", "Restarting", *phases]
    assert sim.pods == {}


def test_what_a_restart_voided_stays_void_when_the_job_is_stopped_meanwhile(simulate: Simulate) -> None:
    """The controller dies between deciding to restart and removing the pods; before it is back, the job is aborted."""
    sim = simulate(job(task("worker", 2), on("PodFailed", "RestartJob"))).run().succeed("worker-0")
    sim.refuse(DeletePod).fail("worker-1")
    assert sim.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    sim.command("AbortJob").refuse()
    assert sim.phase == "Aborted"
    sim.command("ResumeJob")
    assert sim.counts == {"pending": 2}
