"""Whole runs, phase by phase: from Pending to the end, without anybody's interference."""

from __future__ import annotations

import pytest

from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage

RESTART = on("PodFailed", "RestartJob")
COMPANIONS = {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh"}


def test_a_job_completes(stage: MakeStage) -> None:
    play = stage(job(task("master", 1), task("worker", 2), plugins={"svc": [], "ssh": []}))
    assert play.phases == ["Pending"]
    assert play.pods == {"master-0": "Pending", "worker-0": "Pending", "worker-1": "Pending"}
    assert play.counts == {"pending": 3}
    assert set(play.owned_objects) == COMPANIONS
    assert play.has_group()

    play.run("master-0", "worker-0")
    assert play.phase == "Pending"
    assert play.counts == {"pending": 1, "running": 2}

    play.run("worker-1")
    assert play.phase == "Running"
    assert play.by_task == {"master": {"Running": 1}, "worker": {"Running": 2}}

    play.wait(20).succeed("worker-0")
    assert play.phase == "Running"
    assert play.counts == {"running": 2, "succeeded": 1}

    play.wait(10).succeed("worker-1", "master-0")
    assert play.phases == ["Pending", "Running", "Completed"]
    assert play.counts == {"succeeded": 3}
    assert play.by_task == {"master": {"Succeeded": 1}, "worker": {"Succeeded": 2}}
    assert play.pods == {"master-0": "Succeeded", "worker-0": "Succeeded", "worker-1": "Succeeded"}
    assert play.owned_objects == {}
    assert not play.has_group()
    assert play.reason == ("", "")
    assert play.retries == (0, 0)
    assert play.status.running_duration == "30s"


def test_the_phase_is_pending_before_anything_is_made(stage: MakeStage) -> None:
    """Every phase that is entered is written, also by a job that is suspended from its first moment."""
    play = stage(job(task("worker", 1), suspend=True), gang=False)
    assert play.phases == ["Pending", "Aborting", "Aborted"]
    assert play.pods == {}
    assert play.engine.done == []


def test_failures_restart_the_job_until_no_retry_is_left(stage: MakeStage) -> None:
    """`maxRetry: 3` allows three runs, that is two restarts; on the last attempt finished pods are kept."""
    play = stage(job(task("worker", 3), RESTART, max_retry=3, plugins={"svc": []}))
    for attempt in (1, 2):
        play.run()
        assert play.phase == "Running"
        play.succeed("worker-0")
        before = play.uids
        play.fail("worker-1", 137)
        if play.slow:
            assert play.phase == "Restarting"
            assert play.counts == {"terminating": 1}
            assert play.pods == {"worker-2": "Terminating"}
            assert not play.has_group()
        play.let_go()
        assert play.phase == "Pending"
        assert play.counts == {"pending": 3}
        assert play.status.version == attempt
        assert play.retries == (attempt, attempt)
        assert not set(before.values()) & set(play.uids.values())
        assert set(play.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    play.run().succeed("worker-0")
    play.fail("worker-1", 137).let_go()
    assert play.phases == [
        *("Pending", "Running", "Restarting"),
        *("Pending", "Running", "Restarting"),
        *("Pending", "Running", "Restarting", "Failed"),
    ]
    assert play.retries == (3, 3)
    assert play.pods == {"worker-0": "Succeeded", "worker-1": "Failed"}
    assert play.counts == {"succeeded": 1, "failed": 1}
    assert play.owned_objects == {}
    assert play.reason[0] == "RetriesExhausted"


def test_one_run_is_all_that_max_retry_1_allows(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), RESTART, max_retry=1)).run().fail("worker-0").let_go()
    assert play.phases == ["Pending", "Running", "Restarting", "Failed"]
    assert play.retries == (1, 1)
    assert play.pods == {"worker-0": "Failed"}


def test_no_pod_is_made_before_the_old_ones_are_gone(stage: MakeStage) -> None:
    """Also where the gang would fit beside them: two runs of one job must not meet."""
    play = stage(job(task("worker", 4), RESTART, min_available=2)).run()
    play.succeed("worker-0", "worker-1").fail("worker-2")
    if play.slow:
        assert play.phase == "Pending"
        assert play.pods == {"worker-3": "Terminating"}
        assert play.reason == ("Restarting", "waits for the pods of the previous run to terminate")
    play.let_go()
    assert play.phase == "Pending"
    assert play.counts == {"pending": 4}
    assert play.reason == ("", "")


def test_a_pod_past_its_grace_is_waited_for_no_longer() -> None:
    """A lost node would hold the job for ever; nothing happens at that moment that would say so."""
    from tests.scenarios.stage import Stage

    play = Stage(job(task("worker", 3), RESTART, min_available=2), slow=True).run()
    play.succeed("worker-0").fail("worker-1").wait(29)
    assert play.pods == {"worker-2": "Terminating"}
    play.wait(1)
    assert play.pods == {"worker-0": "Pending", "worker-1": "Pending", "worker-2": "Terminating"}
    play.run()
    assert play.phase == "Running"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_policy_completes_the_job(stage: MakeStage, phase: str) -> None:
    """CompleteJob ends the others and keeps what is finished."""
    play = stage(job(task("master", 1, policies=[on("TaskCompleted", "CompleteJob")]), task("worker", 2)))
    play.run("master-0", "worker-0", *(["worker-1"] if phase == "Running" else []))
    assert play.phase == phase
    play.succeed("master-0")
    if play.slow:
        assert play.phase == "Completing"
        assert play.pods == {"master-0": "Succeeded", "worker-0": "Terminating", "worker-1": "Terminating"}
        assert play.counts == {"succeeded": 1, "terminating": 2}
    play.let_go()
    assert play.phases[-2:] == ["Completing", "Completed"]
    assert play.pods == {"master-0": "Succeeded"}
    assert play.counts == {"succeeded": 1}
    assert play.status.version == 1
    assert play.reason == (
        "TaskCompleted",
        "TaskCompleted of master-0; policy spec.tasks[0].policies[0] TaskCompleted: CompleteJob",
    )


def test_a_policy_terminates_the_job(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3), on("PodFailed", "TerminateJob"), plugins={"svc": []})).run()
    play.succeed("worker-0").fail("worker-1", 2)
    if play.slow:
        assert play.phase == "Terminating"
        assert play.counts == {"succeeded": 1, "failed": 1, "terminating": 1}
        assert set(play.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    play.let_go()
    assert play.phases == ["Pending", "Running", "Terminating", "Terminated"]
    assert play.counts == {"succeeded": 1, "failed": 1}
    assert play.owned_objects == {}
    assert not play.has_group()
    assert play.reason[0] == "PodFailed"
    assert play.retries == (0, 0)


def test_enough_successes_end_the_job(stage: MakeStage) -> None:
    """`minSuccess` leads straight to Completed; those that still run are ended then."""
    play = stage(job(task("worker", 4), min_success=2, plugins={"svc": []})).run()
    play.succeed("worker-0")
    assert play.phase == "Running"
    play.succeed("worker-1")
    assert play.phases == ["Pending", "Running", "Completed"]
    if play.slow:
        assert play.counts == {"succeeded": 2, "terminating": 2}
        assert set(play.owned_objects) == {"Service/train", "ConfigMap/train-svc"}
    play.let_go()
    assert play.pods == {"worker-0": "Succeeded", "worker-1": "Succeeded"}
    assert play.counts == {"succeeded": 2}
    assert play.owned_objects == {}


def test_too_few_successes_fail_the_job(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3), min_success=2)).run()
    play.fail("worker-0").fail("worker-1", 3).succeed("worker-2")
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.reason == (
        "MinAvailableNotMet",
        "1 of 3 pods succeeded, 2 needed; worker-0 failed first: exit code 1 in container main; 1 other followed",
    )


def test_too_few_successes_fail_a_job_that_would_do_with_one(stage: MakeStage) -> None:
    """`minSuccess` counts, even where `minAvailable` is met."""
    play = stage(job(task("worker", 3, min_available=1), min_success=2)).run()
    play.fail("worker-0").fail("worker-1").succeed("worker-2")
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.reason[1].startswith("1 of 3 pods succeeded, 2 needed")


def test_a_failure_without_policies_waits_for_the_others(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run().fail("worker-0", 1)
    assert play.phase == "Running"
    assert play.counts == {"running": 1, "failed": 1}
    play.succeed("worker-1")
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.counts == {"succeeded": 1, "failed": 1}
    assert play.pods == {"worker-0": "Failed", "worker-1": "Succeeded"}
    assert play.reason == ("PodFailed", "worker-0 failed first: exit code 1 in container main")


def test_a_pod_that_failed_early_was_there(stage: MakeStage) -> None:
    """From Pending a job becomes Running first, even if all its pods are finished by then."""
    play = stage(job(task("worker", 2))).run("worker-0").fail("worker-0")
    assert play.phase == "Pending"
    assert play.run("worker-1").phases == ["Pending", "Running"]
    early = stage(job(task("worker", 2))).down()
    early.run().succeed().up()
    assert early.phases == ["Pending", "Running", "Completed"]


def test_an_elastic_job_completes_with_its_minimum(stage: MakeStage) -> None:
    tasks = task("worker", 4, min_available=2)
    play = stage(job(tasks)).run("worker-0", "worker-1")
    assert play.phase == "Running"
    play.run().fail("worker-0").fail("worker-1")
    assert play.phase == "Running"
    play.succeed("worker-2", "worker-3")
    assert play.phases == ["Pending", "Running", "Completed"]
    assert play.counts == {"succeeded": 2, "failed": 2}


def test_each_task_needs_its_own_minimum(stage: MakeStage) -> None:
    """Three successes would be enough for the job, but the task `ps` has none."""
    play = stage(job(task("ps", 2, min_available=1), task("worker", 3, min_available=2))).run()
    play.fail("ps-0").fail("ps-1").succeed()
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.reason[0] == "MinAvailableNotMet"
    assert play.reason[1].startswith("0 of 2 pods of task ps succeeded, 1 needed; ps-0 failed first")


def test_a_job_whose_minimum_is_below_that_of_its_tasks_only_counts_the_sum(stage: MakeStage) -> None:
    play = stage(job(task("ps", 2, min_available=2), task("worker", 3), min_available=3)).run()
    play.fail("ps-0").fail("ps-1").succeed()
    assert play.phases == ["Pending", "Running", "Completed"]


def test_an_unknown_pod_holds_up_the_end(stage: MakeStage) -> None:
    from pumice.model.snapshot import PodPhase

    play = stage(job(task("worker", 2))).run().change("worker-0", phase=PodPhase.UNKNOWN).succeed("worker-1")
    assert play.phase == "Running"
    assert play.counts == {"succeeded": 1, "unknown": 1}
    play.change("worker-0", phase=PodPhase.RUNNING).succeed("worker-0")
    assert play.phase == "Completed"


def test_a_finished_job_stays_as_it_is(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run().succeed()
    status = play.status
    play.evict("worker-0")
    assert play.status == status  # its success is remembered
    for action in ("RestartJob", "AbortJob", "ResumeJob", "TerminateJob", "CompleteJob"):
        play.command(action)
    assert play.status == status
    assert play.scale(worker=5).pods == {"worker-1": "Succeeded"}
    assert play.phase == "Completed"
