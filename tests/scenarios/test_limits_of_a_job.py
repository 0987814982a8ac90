"""Limits that users set: activeDeadlineSeconds, maxRestarts, ttlSecondsAfterFinished."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage


def test_the_deadline_counts_from_the_first_running(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), active_deadline_seconds=60, plugins={"svc": []})).wait(1000)
    assert play.phase == "Pending"
    play.run().succeed("worker-0").wait(59.9)
    assert play.phase == "Running"
    play.wait(0.1)
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.reason == ("DeadlineExceeded", "the job ran longer than its activeDeadlineSeconds, 60")
    if play.slow:
        assert play.counts == {"succeeded": 1, "terminating": 1}
        assert len(play.owned_objects) == 2
    play.let_go()
    assert play.counts == {"succeeded": 1}
    assert play.owned_objects == {}


def test_restarts_and_suspensions_do_not_stop_the_deadline(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1), on("PodFailed", "RestartJob"), active_deadline_seconds=60)).run()
    play.wait(30).fail("worker-0").let_go().run().suspend().let_go().restart_controller().wait(100)
    assert play.phase == "Aborted"
    play.suspend(False)
    assert play.phases[-2:] == ["Restarting", "Failed"]
    assert play.reason[0] == "DeadlineExceeded"


def test_the_deadline_of_a_finished_job_means_nothing(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1), active_deadline_seconds=60)).run().succeed().wait(100)
    assert play.phase == "Completed"


def test_a_task_may_cause_only_so_many_restarts(stage: MakeStage) -> None:
    """`maxRestarts: 1`: its second failure ends the job, though retries are left; other tasks have their own."""
    tasks = task("ps", 1), task("worker", 1, max_restarts=1)
    play = stage(job(*tasks, on("PodFailed", "RestartJob"), max_retry=10)).run()
    for name in ("ps-0", "worker-0", "ps-0"):
        play.fail(name).let_go().run()
        assert play.phase == "Running"
    play.fail("worker-0").let_go()
    assert play.phase == "Failed"
    assert play.retries == (4, 4)
    assert play.pods == {"worker-0": "Failed"}
    assert play.reason[0] == "RetriesExhausted"
    assert play.reason[1].startswith("task worker has caused more restarts than its maxRestarts, 1; the last cause: ")


def test_no_restart_at_all() -> None:
    play = Stage(job(task("worker", 2, max_restarts=0), on("PodFailed", "RestartPod"))).run().fail("worker-0")
    assert play.phases == ["Pending", "Running", "Restarting", "Failed"]


def test_evictions_spend_no_retry(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1, max_restarts=0), on("PodEvicted", "RestartJob"))).run()
    assert play.evict("worker-0").let_go().run().phase == "Running"


@pytest.mark.parametrize(
    ("end", "phase"),
    [("succeed", "Completed"), ("fail", "Failed"), ("terminate", "Terminated"), ("abort", "Aborted")],
)
def test_a_finished_job_is_removed_in_time(stage: MakeStage, end: str, phase: str) -> None:
    """But never one that was only suspended."""
    play = stage(job(task("worker", 1), ttl_seconds_after_finished=30)).run().wait(5)
    ends: dict[str, Callable[[], Stage]] = {
        "succeed": play.succeed,
        "fail": lambda: play.fail("worker-0"),
        "terminate": lambda: play.command("TerminateJob"),
        "abort": lambda: play.command("AbortJob"),
    }
    ends[end]()
    play.let_go()
    assert play.phase == phase
    play.wait(20).restart_controller()
    assert play.key in play.world.jobs
    play.wait(10)
    assert (play.key in play.world.jobs) is (phase == "Aborted")


def test_a_job_may_be_removed_at_once(stage: MakeStage) -> None:
    """Its last phase is written and told all the same."""
    play = stage(job(task("worker", 1), ttl_seconds_after_finished=0)).run().fail("worker-0", 3)
    assert play.key not in play.world.jobs
    assert play.phases == ["Pending", "Running", "Failed"]
    assert play.messages("Failed") == ["worker-0 failed first: exit code 3 in container main"]
