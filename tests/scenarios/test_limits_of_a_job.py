"""Limits that users set: activeDeadlineSeconds, maxRestarts, ttlSecondsAfterFinished."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation


def test_the_deadline_counts_from_the_first_running(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), active_deadline_seconds=60, plugins={"svc": []})).wait(1000)
    assert sim.phase == "Pending"
    sim.run().succeed("worker-0").wait(59.9)
    assert sim.phase == "Running"
    sim.wait(0.1)
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.reason == ("DeadlineExceeded", "the job ran longer than its activeDeadlineSeconds, 60")
    if sim.slow:
        assert sim.counts == {"succeeded": 1, "terminating": 1}
        assert len(sim.owned_objects) == 2
    sim.let_go()
    assert sim.counts == {"succeeded": 1}
    assert sim.owned_objects == {}


def test_restarts_and_suspensions_do_not_stop_the_deadline(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1), on("PodFailed", "RestartJob"), active_deadline_seconds=60)).run()
    sim.wait(30).fail("worker-0").let_go().run().suspend().let_go().restart_controller().wait(100)
    assert sim.phase == "Aborted"
    sim.suspend(False)
    assert sim.phases[-2:] == ["Restarting", "Failed"]
    assert sim.reason[0] == "DeadlineExceeded"


def test_the_deadline_of_a_finished_job_means_nothing(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1), active_deadline_seconds=60)).run().succeed().wait(100)
    assert sim.phase == "Completed"


def test_a_task_may_cause_only_so_many_restarts(simulate: Simulate) -> None:
    """`maxRestarts: 1`: its second failure ends the job, though retries are left; other tasks have their own."""
    tasks = task("ps", 1), task("worker", 1, max_restarts=1)
    sim = simulate(job(*tasks, on("PodFailed", "RestartJob"), max_retry=10)).run()
    for name in ("ps-0", "worker-0", "ps-0"):
        sim.fail(name).let_go().run()
        assert sim.phase == "Running"
    sim.fail("worker-0").let_go()
    assert sim.phase == "Failed"
    assert sim.retries == (4, 4)
    assert sim.pods == {"worker-0": "Failed"}
    assert sim.reason[0] == "RetriesExhausted"
    assert sim.reason[1].startswith("task worker has caused more restarts than its maxRestarts, 1; the last cause: ")


def test_no_restart_at_all() -> None:
    sim = Simulation(job(task("worker", 2, max_restarts=0), on("PodFailed", "RestartPod"))).run().fail("worker-0")
    assert sim.phases == ["Pending", "Running", "Restarting", "Failed"]


def test_evictions_spend_no_retry(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1, max_restarts=0), on("PodEvicted", "RestartJob"))).run()
    assert sim.evict("worker-0").let_go().run().phase == "Running"


@pytest.mark.parametrize(
    ("end", "phase"),
    [("succeed", "Completed"), ("fail", "Failed"), ("terminate", "Terminated"), ("abort", "Aborted")],
)
def test_a_finished_job_is_removed_in_time(simulate: Simulate, end: str, phase: str) -> None:
    """But never one that was only suspended."""
    sim = simulate(job(task("worker", 1), ttl_seconds_after_finished=30)).run().wait(5)
    ends: dict[str, Callable[[], Simulation]] = {
        "succeed": sim.succeed,
        "fail": lambda: sim.fail("worker-0"),
        "terminate": lambda: sim.command("TerminateJob"),
        "abort": lambda: sim.command("AbortJob"),
    }
    ends[end]()
    sim.let_go()
    assert sim.phase == phase
    sim.wait(20).restart_controller()
    assert sim.key in sim.world.jobs
    sim.wait(10)
    assert (sim.key in sim.world.jobs) is (phase == "Aborted")


def test_a_job_may_be_removed_at_once(simulate: Simulate) -> None:
    """Its last phase is written and told all the same."""
    sim = simulate(job(task("worker", 1), ttl_seconds_after_finished=0)).run().fail("worker-0", 3)
    assert sim.key not in sim.world.jobs
    assert sim.phases == ["Pending", "Running", "Failed"]
    assert sim.messages("Failed") == ["worker-0 failed first: exit code 3 in container main"]
