"""Whole runs, phase by phase: from Pending to the end, without anybody's interference."""

from __future__ import annotations

import pytest

from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate

RESTART = on("PodFailed", "RestartJob")
OWNED_OBJECTS = {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh"}


def test_a_job_completes(simulate: Simulate) -> None:
    sim = simulate(job(task("master", 1), task("worker", 2), plugins={"svc": [], "ssh": []}))
    assert sim.phases == ["Pending"]
    assert sim.pods == {"master-0": "Pending", "worker-0": "Pending", "worker-1": "Pending"}
    assert sim.counts == {"pending": 3}
    assert set(sim.owned_objects) == OWNED_OBJECTS
    assert sim.has_group()

    sim.run("master-0", "worker-0")
    assert sim.phase == "Pending"
    assert sim.counts == {"pending": 1, "running": 2}

    sim.run("worker-1")
    assert sim.phase == "Running"
    assert sim.by_task == {"master": {"Running": 1}, "worker": {"Running": 2}}

    sim.wait(20).succeed("worker-0")
    assert sim.phase == "Running"
    assert sim.counts == {"running": 2, "succeeded": 1}

    sim.wait(10).succeed("worker-1", "master-0")
    assert sim.phases == ["Pending", "Running", "Completed"]
    assert sim.counts == {"succeeded": 3}
    assert sim.by_task == {"master": {"Succeeded": 1}, "worker": {"Succeeded": 2}}
    assert sim.pods == {"master-0": "Succeeded", "worker-0": "Succeeded", "worker-1": "Succeeded"}
    assert sim.owned_objects == {}
    assert not sim.has_group()
    assert sim.reason == ("", "")
    assert sim.retries == (0, 0)
    assert sim.status.running_duration == "30s"


def test_the_phase_is_pending_before_anything_is_made(simulate: Simulate) -> None:
    """Every phase that is entered is written, also by a job that is suspended from its first moment."""
    sim = simulate(job(task("worker", 1), suspend=True), gang=False)
    assert sim.phases == ["Pending", "Aborting", "Aborted"]
    assert sim.pods == {}
    assert sim.engine.done == []


def test_failures_restart_the_job_until_no_retry_is_left(simulate: Simulate) -> None:
    """`maxRetry: 3` allows three runs, that is two restarts; on the last attempt finished pods are kept."""
    sim = simulate(job(task("worker", 3), RESTART, max_retry=3, plugins={"svc": []}))
    for attempt in (1, 2):
        sim.run()
        assert sim.phase == "Running"
        sim.succeed("worker-0")
        before = sim.uids
        sim.fail("worker-1", 137)
        if sim.slow:
            assert sim.phase == "Restarting"
            assert sim.counts == {"terminating": 1}
            assert sim.pods == {"worker-2": "Terminating"}
            assert not sim.has_group()
        sim.let_go()
        assert sim.phase == "Pending"
        assert sim.counts == {"pending": 3}
        assert sim.status.version == attempt
        assert sim.retries == (attempt, attempt)
        assert not set(before.values()) & set(sim.uids.values())
        assert set(sim.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    sim.run().succeed("worker-0")
    sim.fail("worker-1", 137).let_go()
    assert sim.phases == [
        *("Pending", "Running", "Restarting"),
        *("Pending", "Running", "Restarting"),
        *("Pending", "Running", "Restarting", "Failed"),
    ]
    assert sim.retries == (3, 3)
    assert sim.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    assert sim.counts == {"succeeded": 1, "failed": 1}
    assert sim.owned_objects == {}
    assert sim.reason[0] == "RetriesExhausted"


def test_one_run_is_all_that_max_retry_1_allows(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), RESTART, max_retry=1)).run().fail("worker-0").let_go()
    assert sim.phases == ["Pending", "Running", "Restarting", "Failed"]
    assert sim.retries == (1, 1)
    assert sim.pods == {"worker-0": "Failed"}


def test_no_pod_is_made_before_the_old_ones_are_gone(simulate: Simulate) -> None:
    """Also where the gang would fit beside them: two runs of one job must not meet."""
    sim = simulate(job(task("worker", 4), RESTART, min_available=2)).run()
    sim.succeed("worker-0", "worker-1").fail("worker-2")
    if sim.slow:
        assert sim.phase == "Pending"
        assert sim.pods == {"worker-3": "Terminating"}
        assert sim.reason == ("Restarting", "waits for the pods of the previous run to terminate")
    sim.let_go()
    assert sim.phase == "Pending"
    assert sim.counts == {"pending": 4}
    assert sim.reason == ("", "")


def test_a_pod_past_its_grace_is_waited_for_no_longer() -> None:
    """A lost node would hold the job for ever; nothing happens at that moment that would say so."""
    from tests.scenarios.simulation import Simulation

    sim = Simulation(job(task("worker", 3), RESTART, min_available=2), slow=True).run()
    sim.succeed("worker-0").fail("worker-1").wait(29)
    assert sim.pods == {"worker-2": "Terminating"}
    sim.wait(1)
    assert sim.pods == {"worker-0": "Pending", "worker-1": "Pending", "worker-2": "Terminating"}
    sim.run()
    assert sim.phase == "Running"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_policy_completes_the_job(simulate: Simulate, phase: str) -> None:
    """CompleteJob ends the others and keeps what is finished."""
    sim = simulate(job(task("master", 1, policies=[on("TaskCompleted", "CompleteJob")]), task("worker", 2)))
    sim.run("master-0", "worker-0", *(["worker-1"] if phase == "Running" else []))
    assert sim.phase == phase
    sim.succeed("master-0")
    if sim.slow:
        assert sim.phase == "Completing"
        assert sim.pods == {"master-0": "Succeeded", "worker-0": "Terminating", "worker-1": "Terminating"}
        assert sim.counts == {"succeeded": 1, "terminating": 2}
    sim.let_go()
    assert sim.phases[-2:] == ["Completing", "Completed"]
    assert sim.pods == {"master-0": "Succeeded"}
    assert sim.counts == {"succeeded": 1}
    assert sim.status.version == 1
    assert sim.reason == (
        "TaskCompleted",
        "TaskCompleted of master-0; policy spec.tasks[0].policies[0] TaskCompleted: CompleteJob",
    )


def test_a_policy_terminates_the_job(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3), on("PodFailed", "TerminateJob"), plugins={"svc": []})).run()
    sim.succeed("worker-0").fail("worker-1", 2)
    if sim.slow:
        assert sim.phase == "Terminating"
        assert sim.counts == {"succeeded": 1, "failed": 1, "terminating": 1}
        assert set(sim.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    sim.let_go()
    assert sim.phases == ["Pending", "Running", "Terminating", "Terminated"]
    assert sim.counts == {"succeeded": 1, "failed": 1}
    assert sim.owned_objects == {}
    assert not sim.has_group()
    assert sim.reason[0] == "PodFailed"
    assert sim.retries == (0, 0)


def test_enough_successes_end_the_job(simulate: Simulate) -> None:
    """`minSuccess` leads straight to Completed; those that still run are ended then."""
    sim = simulate(job(task("worker", 4), min_success=2, plugins={"svc": []})).run()
    sim.succeed("worker-0")
    assert sim.phase == "Running"
    sim.succeed("worker-1")
    assert sim.phases == ["Pending", "Running", "Completed"]
    if sim.slow:
        assert sim.counts == {"succeeded": 2, "terminating": 2}
        assert set(sim.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    sim.let_go()
    assert sim.pods == {"worker-0": "Succeeded", "worker-1": "Succeeded"}
    assert sim.counts == {"succeeded": 2}
    assert sim.owned_objects == {}


def test_too_few_successes_fail_the_job(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3), min_success=2)).run()
    sim.fail("worker-0").fail("worker-1", 3).succeed("worker-2")
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.reason == (
        "MinAvailableNotMet",
        "1 of 3 pods succeeded, 2 needed; worker-0 failed first: exit code 1 in container main; 1 other followed",
    )


def test_too_few_successes_fail_a_job_that_would_do_with_one(simulate: Simulate) -> None:
    """`minSuccess` counts, even where `minAvailable` is met."""
    sim = simulate(job(task("worker", 3, min_available=1), min_success=2)).run()
    sim.fail("worker-0").fail("worker-1").succeed("worker-2")
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.reason[1].startswith("1 of 3 pods succeeded, 2 needed")


def test_a_failure_without_policies_waits_for_the_others(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run().fail("worker-0", 1)
    assert sim.phase == "Running"
    assert sim.counts == {"running": 1, "failed": 1}
    sim.succeed("worker-1")
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.counts == {"succeeded": 1, "failed": 1}
    assert sim.pods == {"worker-0": "Failed", "worker-1": "Succeeded"}
    assert sim.reason == ("PodFailed", "worker-0 failed first: exit code 1 in container main")


def test_a_pod_that_failed_early_was_there(simulate: Simulate) -> None:
    """From Pending a job becomes Running first, even if all its pods are finished by then."""
    sim = simulate(job(task("worker", 2))).run("worker-0").fail("worker-0")
    assert sim.phase == "Pending"
    assert sim.run("worker-1").phases == ["Pending", "Running"]
    early = simulate(job(task("worker", 2))).down()
    early.run().succeed().up()
    assert early.phases == ["Pending", "Running", "Completed"]


def test_an_elastic_job_completes_with_its_minimum(simulate: Simulate) -> None:
    tasks = task("worker", 4, min_available=2)
    sim = simulate(job(tasks)).run("worker-0", "worker-1")
    assert sim.phase == "Running"
    sim.run().fail("worker-0").fail("worker-1")
    assert sim.phase == "Running"
    sim.succeed("worker-2", "worker-3")
    assert sim.phases == ["Pending", "Running", "Completed"]
    assert sim.counts == {"succeeded": 2, "failed": 2}


def test_each_task_needs_its_own_minimum(simulate: Simulate) -> None:
    """Three successes would be enough for the job, but the task `ps` has none."""
    sim = simulate(job(task("ps", 2, min_available=1), task("worker", 3, min_available=2))).run()
    sim.fail("ps-0").fail("ps-1").succeed()
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.reason[0] == "MinAvailableNotMet"
    assert sim.reason[1].startswith("0 of 2 pods of task ps succeeded, 1 needed; ps-0 failed first")


def test_a_job_whose_minimum_is_below_that_of_its_tasks_only_counts_the_sum(simulate: Simulate) -> None:
    sim = simulate(job(task("ps", 2, min_available=2), task("worker", 3), min_available=3)).run()
    sim.fail("ps-0").fail("ps-1").succeed()
    assert sim.phases == ["Pending", "Running", "Completed"]


def test_an_unknown_pod_holds_up_the_end(simulate: Simulate) -> None:
    from pumice.model.snapshot import PodPhase

    sim = simulate(job(task("worker", 2))).run().change("worker-0", phase=PodPhase.UNKNOWN).succeed("worker-1")
    assert sim.phase == "Running"
    assert sim.counts == {"succeeded": 1, "unknown": 1}
    sim.change("worker-0", phase=PodPhase.RUNNING).succeed("worker-0")
    assert sim.phase == "Completed"


def test_a_finished_job_stays_as_it_is(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run().succeed()
    status = sim.status
    sim.evict("worker-0")
    assert sim.status == status  # its success is remembered
    for action in ("RestartJob", "AbortJob", "ResumeJob", "TerminateJob", "CompleteJob"):
        sim.command(action)
    assert sim.status == status
    assert sim.scale(worker=5).pods == {"worker-1": "Succeeded"}
    assert sim.phase == "Completed"
