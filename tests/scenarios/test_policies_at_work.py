"""Policies at work: which one acts, when, and on what; also for what happened while the controller was away."""

from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.snapshot import ContainerEnd
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

RESTART, TERMINATE, ABORT, COMPLETE = "RestartJob", "TerminateJob", "AbortJob", "CompleteJob"
WINDING_DOWN = {RESTART: "Restarting", TERMINATE: "Terminating", ABORT: "Aborting", COMPLETE: "Completing"}


def _acted(sim: Simulation) -> str:
    """The path of the policy that acted last, and the event."""
    return next((f"{event.policy} {event.event}" for event in reversed(sim.events) if event.policy), "")


# --- exit codes


@pytest.mark.parametrize(
    ("policies", "code", "acted"),
    [
        pytest.param([on("", ABORT, exit_code=3)], 3, "spec.policies[0] PodFailed", id="its code"),
        pytest.param([on("", ABORT, exit_code=3)], 4, "", id="another code"),
        pytest.param([on("", ABORT, exit_codes=[3, 137])], 137, "spec.policies[0] PodFailed", id="one of a list"),
        pytest.param([on("", ABORT, exit_codes=[3, 137])], 9, "", id="none of a list"),
        pytest.param(
            [on("", TERMINATE, exit_code=3), on("PodFailed", ABORT)],
            4,
            "spec.policies[1] PodFailed",
            id="falls through",
        ),
        pytest.param(
            [on("PodFailed", ABORT), on("", TERMINATE, exit_code=3)], 3, "spec.policies[0] PodFailed", id="order counts"
        ),
    ],
)
def test_exit_codes(policies: list[object], code: int, acted: str) -> None:
    sim = Simulation(job(task("worker", 2), *policies)).run().fail("worker-1", code)  # type: ignore[arg-type]  # policies
    assert _acted(sim) == acted
    assert sim.phase == ("Running" if not acted else "Aborted")


def _end(container: str, code: int, second: int) -> ContainerEnd:
    return ContainerEnd(container, code, finished_at=dt.datetime(2000, 1, 1, 0, 0, second, tzinfo=dt.UTC))


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([_end("a", 0, 1), _end("b", 3, 2)], id="the first listed one succeeded"),
        pytest.param([_end("a", 143, 5), _end("b", 3, 4)], id="the first listed one followed"),
        pytest.param([_end("prepare", 3, 1)], id="an init container"),
    ],
)
def test_the_code_is_that_of_the_container_that_failed_first(ends: list[ContainerEnd]) -> None:
    sim = Simulation(job(task("worker", 1), on("", ABORT, exit_code=3))).run().end_containers("worker-0", *ends)
    assert sim.phase == "Aborted"
    assert f"exit code 3 in container {next(end.container for end in ends if end.exit_code == 3)}" in sim.reason[1]


def test_a_failure_in_the_future_is_dealt_with_now() -> None:
    """The clock of a node may be ahead of the controller's."""
    sim = Simulation(job(task("worker", 1), on("PodFailed", ABORT))).run()
    assert sim.end_containers("worker-0", _end("main", 1, 59)).phase == "Aborted"


def test_a_failed_pod_without_containers_has_no_code() -> None:
    """As the kubelet leaves a pod that it evicted: it failed all the same, and its reason is told."""
    codes = job(task("worker", 1), on("", TERMINATE, exit_code=0), on("PodFailed", ABORT))
    sim = Simulation(job(task("worker", 1), on("", TERMINATE, exit_code=1), on("PodFailed", ABORT))).run()
    sim.end_containers("worker-0", reason="Evicted")
    assert sim.phase == "Aborted"
    assert sim.reason[0] == "Evicted"
    assert Simulation(codes).reason[0] == "InvalidJob"


# --- which policy


@pytest.mark.parametrize(
    ("own", "general", "expected"),
    [
        pytest.param([on("PodFailed", ABORT)], [on("PodFailed", TERMINATE)], "Aborted", id="the task's own first"),
        pytest.param([on("PodEvicted", ABORT)], [on("PodFailed", TERMINATE)], "Terminated", id="then the job's"),
        pytest.param([on("*", ABORT)], [on("PodFailed", TERMINATE)], "Aborted", id="any event is enough"),
        pytest.param(
            [on("", ABORT, exit_code=7)], [on("*", TERMINATE)], "Terminated", id="the task's does not match the code"
        ),
        pytest.param(
            [on("", ABORT, events=["TaskFailed", "PodFailed"])], [], "Aborted", id="one of the events of a list"
        ),
    ],
)
def test_the_policies_of_the_task_come_before_those_of_the_job(
    own: list[object], general: list[object], expected: str
) -> None:
    sim = Simulation(job(task("worker", 2, policies=own), task("ps", 1), *general))  # type: ignore[arg-type]  # policies
    assert sim.run().fail("worker-0").phase == expected


def test_the_policies_of_another_task_mean_nothing() -> None:
    sim = Simulation(job(task("worker", 1), task("ps", 1, policies=[on("PodFailed", ABORT)]))).run()
    assert sim.fail("worker-0").phase == "Running"
    assert sim.fail("ps-0").phase == "Aborted"


def test_an_action_that_means_nothing_does_not_stand_in_the_way() -> None:
    """ResumeJob means nothing in Running; the other pod's failure is dealt with all the same."""
    tasks = [task("a", 1, policies=[on("PodFailed", "ResumeJob")]), task("b", 1)]
    sim = Simulation(job(*tasks, on("PodFailed", ABORT))).run().fail("a-0")
    assert sim.phase == "Running"
    assert sim.wait(1).fail("b-0").phase == "Aborted"


def test_of_two_policies_the_one_that_is_due_first_acts() -> None:
    tasks = [task("a", 1, policies=[on("PodFailed", ABORT)]), task("b", 1, policies=[on("PodFailed", TERMINATE)])]
    sim = Simulation(job(*tasks)).run().down()
    sim.fail("b-0").wait(1)
    sim.fail("a-0").up()
    assert sim.phase == "Terminated"


# --- TaskCompleted, TaskFailed


def test_a_task_is_completed_when_all_its_pods_succeeded(simulate: Simulate) -> None:
    sim = simulate(job(task("master", 2, policies=[on("TaskCompleted", COMPLETE)]), task("worker", 1))).run()
    assert sim.succeed("master-1").phase == "Running"
    sim.succeed("master-0").let_go()
    assert sim.phases[-2:] == ["Completing", "Completed"]


def test_a_task_is_completed_also_by_memory(simulate: Simulate) -> None:
    """The pod of the first success was removed meanwhile."""
    sim = simulate(job(task("master", 2, policies=[on("TaskCompleted", COMPLETE)]), task("worker", 1))).run()
    sim.succeed("master-1").evict("master-1").let_go()
    assert sim.pods == {"master-0": "Running", "worker-0": "Running"}
    assert sim.succeed("master-0").let_go().phase == "Completed"


def test_a_task_is_completed_by_scaling_down(simulate: Simulate) -> None:
    sim = simulate(job(task("master", 2, policies=[on("TaskCompleted", COMPLETE)]), task("worker", 1))).run()
    assert sim.succeed("master-0").scale(master=1).let_go().phase == "Completed"


@pytest.mark.parametrize(("most", "restarts"), [(None, 3), (1, 1), (5, 5)])
def test_containers_that_restart_too_often_fail_their_task(most: int | None, restarts: int) -> None:
    """TaskFailed counts restarts over the task's pods; three are too many unless the task says otherwise."""
    sim = Simulation(job(task("worker", 2, max_retry=most or 0), on("TaskFailed", ABORT))).run()
    sim.change("worker-0", restarts=restarts - 1)
    assert sim.phase == "Running"
    assert sim.change("worker-1", restarts=1).phase == "Aborted"
    assert sim.reason[0] == "TaskFailed"


def test_failed_pods_do_not_fail_their_task() -> None:
    sim = Simulation(job(task("worker", 3), on("TaskFailed", ABORT))).run().fail("worker-0").fail("worker-1")
    assert sim.phase == "Running"


# --- Unknown, JobUpdated


def test_every_unknown_group_meets_its_policy(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("Unknown", RESTART), max_retry=5)).run()
    for retry in (1, 2):
        sim.set_group("Unknown").let_go()
        assert sim.phase == "Pending"
        assert sim.retries == (retry, retry)
        assert sim.run().phase == "Running"
    assert sim.reason == ("", "")


def test_a_group_that_cannot_be_removed_restarts_nothing_twice() -> None:
    from pumice.reconcile.decision import Remove

    sim = Simulation(job(task("worker", 2), on("Unknown", RESTART), max_retry=5)).run().refuse(Remove)
    sim.set_group("Unknown").wait(300)
    assert sim.phase == "Restarting"
    assert (sim.status.version, sim.retries) == (1, (1, 1))
    sim.refuse()
    assert sim.phase == "Pending"
    assert (sim.status.version, sim.retries) == (1, (1, 1))


def test_an_update_fires_once_for_each_change(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("JobUpdated", RESTART))).run()
    assert sim.retries == (0, 0)
    sim.scale(worker=3).let_go().run()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert sim.retries == (1, 0)  # counted, but nothing of maxRetry is spent
    sim.restart_controller()
    assert sim.retries == (1, 0)
    for size in (2, 3, 2, 3):
        sim.scale(worker=size).let_go().run()
    assert sim.retries == (5, 0)
    assert sim.phase == "Running"


def test_any_event_is_not_an_update() -> None:
    sim = Simulation(job(task("worker", 2), on("*", TERMINATE))).run().scale(worker=3)
    assert sim.run().phase == "Running"


def test_an_update_is_not_lost_behind_a_command() -> None:
    sim = Simulation(job(task("worker", 2), on("JobUpdated", ABORT))).run().down()
    sim.scale(worker=3)
    sim.command("SyncJob").up()
    assert sim.phase == "Aborted"


def test_an_update_while_the_controller_is_away_is_noticed() -> None:
    sim = Simulation(job(task("worker", 2), on("JobUpdated", ABORT))).run().down()
    sim.scale(worker=3).up()
    assert sim.phase == "Aborted"


# --- timeouts


def test_a_failure_waits_for_its_timeout(simulate: Simulate) -> None:
    """It is counted at once; the policy acts when its time has come, not a moment earlier."""
    sim = simulate(job(task("worker", 2), on("PodFailed", ABORT, timeout="10s"))).run().wait(3).fail("worker-0")
    assert sim.phase == "Running"
    assert sim.counts == {"running": 1, "failed": 1}
    sim.wait(9.999)
    assert sim.phase == "Running"
    sim.wait(0.001)
    assert sim.phase == ("Aborting" if sim.slow else "Aborted")
    assert sim.let_go().phase == "Aborted"


def test_a_timeout_survives_the_controller(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", ABORT, timeout="10s"))).run().fail("worker-0")
    sim.wait(6).restart_controller()
    assert sim.wait(3).phase == "Running"
    assert sim.wait(1).let_go().phase == "Aborted"


def test_the_job_does_not_fail_before_its_policy_has_spoken(simulate: Simulate) -> None:
    """All pods are finished while the timeout runs."""
    sim = simulate(job(task("worker", 2), on("PodFailed", RESTART, timeout="10s"))).run().fail("worker-0")
    sim.wait(5).succeed("worker-1")
    assert sim.phase == "Running"
    assert sim.counts == {"succeeded": 1, "failed": 1}
    sim.wait(5)
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]


def test_a_failure_without_a_time_counts_from_when_it_was_noticed() -> None:
    """A pod that the kubelet evicted has no container that would tell."""
    sim = Simulation(job(task("worker", 2), on("PodFailed", ABORT, timeout="10s"))).run()
    sim.end_containers("worker-0", reason="Evicted").wait(9).restart_controller()
    assert sim.phase == "Running"
    assert sim.wait(1).phase == "Aborted"


def test_a_pod_that_stays_pending_is_dealt_with(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodPending", RESTART, timeout="60s"))).run("worker-0").wait(59)
    assert sim.phase == "Pending"
    sim.restart_controller().wait(1)
    assert sim.phases == ["Pending", "Restarting", *(["Pending"] if not sim.slow else [])]
    assert sim.let_go().phase == "Pending"
    assert sim.retries == (1, 1)
    # The new pods have their own minute.
    assert sim.wait(59).retries == (1, 1)


def test_a_pod_that_started_in_time_is_left_alone(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodPending", ABORT, timeout="60s"))).wait(59).run()
    assert sim.restart_controller().wait(600).phase == "Running"


def test_pending_without_a_timeout_means_nothing() -> None:
    assert Simulation(job(task("worker", 2), on("*", ABORT))).wait(60).phase == "Pending"


def test_a_recreated_pod_does_not_inherit_the_timeout(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", ABORT, timeout="60s"))).run().fail("worker-0").wait(30)
    sim.evict("worker-0").run()
    assert sim.wait(600).phase == "Running"


@pytest.mark.parametrize("event", ["Unknown", "TaskFailed", "JobUpdated", "PodEvicted", "TaskCompleted"])
def test_a_timeout_counts_from_the_moment_noticed(event: str) -> None:
    """Kept in the status, so a restart of the controller does not begin it anew."""
    sim = Simulation(job(task("worker", 2), task("ps", 1), on(event, ABORT, timeout="10s"))).run()
    {
        "Unknown": lambda: sim.set_group("Unknown"),
        "TaskFailed": lambda: sim.change("worker-0", restarts=3),
        "JobUpdated": lambda: sim.scale(worker=1),
        "PodEvicted": lambda: sim.evict("worker-0"),
        "TaskCompleted": lambda: sim.succeed("ps-0"),
    }[event]()
    assert sim.wait(6).restart_controller().wait(3.9).phase in {"Running", "Pending"}
    assert sim.wait(0.1).phase == "Aborted"


def test_a_group_that_is_known_again_stops_the_clock() -> None:
    sim = Simulation(job(task("worker", 2), on("Unknown", ABORT, timeout="10s"))).run()
    sim.set_group("Unknown").wait(9).set_group("Running").wait(9)
    assert sim.set_group("Unknown").wait(9).phase == "Running"
    assert sim.wait(1).phase == "Aborted"
