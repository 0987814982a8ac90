"""PodEvicted: a pod that we did not remove is gone, or has failed while it was being deleted."""

from __future__ import annotations

import pytest

from pumice.model.snapshot import ContainerEnd
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

EVICTED = on("PodEvicted", "RestartJob")


def test_a_pod_that_is_gone_was_evicted(simulate: Simulate) -> None:
    """Not at the request: it may run on for a while. Nobody failed, so nothing of maxRetry is spent."""
    sim = simulate(job(task("worker", 2), EVICTED)).run().evict("worker-0")
    if sim.slow:
        assert sim.phase == "Running"
        assert sim.counts == {"running": 1, "terminating": 1}
    sim.let_go("worker-0")
    assert sim.phase == ("Restarting" if sim.slow else "Pending")
    if sim.slow:
        assert sim.reason == (
            "Evicted",
            "worker-0 was deleted by someone else; policy spec.policies[0] PodEvicted: RestartJob",
        )
    sim.let_go().run()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert sim.retries == (1, 0)


def test_a_pod_that_fails_on_its_way_out_was_evicted() -> None:
    """Its process ends with 143: that is no failure of its own."""
    sim = (
        Simulation(job(task("worker", 2), on("PodFailed", "TerminateJob"), EVICTED), slow=True)
        .run()
        .ask_out("worker-0")
    )
    assert sim.phase == "Running"
    sim.fail("worker-0", 143)
    assert sim.phase == "Restarting"
    sim.let_go()
    assert sim.phase == "Pending"
    assert sim.retries == (1, 0)


def test_a_pod_that_ends_well_on_its_way_out_was_evicted_all_the_same() -> None:
    """It was told to end and did so in good order; that is not the end of its work."""
    sim = Simulation(job(task("worker", 2), EVICTED), slow=True).run().ask_out("worker-0").succeed("worker-0")
    assert sim.phase == "Running"
    assert sim.counts == {"running": 1, "terminating": 1}
    sim.let_go("worker-0")
    assert sim.phase == "Restarting"
    assert sim.let_go().counts == {"pending": 2}


@pytest.mark.parametrize("events", [("PodFailed", "PodEvicted"), ("PodEvicted", "PodFailed"), ("PodFailed",)])
def test_a_pod_that_its_kubelet_evicted_spends_a_retry(events: tuple[str, ...]) -> None:
    """It used too much: that is a failure. The first PodEvicted policy acts, or else the first PodFailed policy."""
    actions = {"PodEvicted": "RestartJob", "PodFailed": "AbortJob" if "PodEvicted" in events else "RestartJob"}
    policies = [on(event, actions[event]) for event in events]
    sim = Simulation(job(task("worker", 2), *policies, max_retry=1), slow=True).run()
    sim.change("worker-0", message='Usage of EmptyDir volume "s" exceeds the limit "1Mi". ')
    end = ContainerEnd("main", 137, "Error")
    sim.end_containers("worker-0", end, reason="Evicted")
    event = "PodEvicted" if "PodEvicted" in events else "PodFailed"
    why = 'worker-0 failed first: Evicted: Usage of EmptyDir volume "s" exceeds the limit "1Mi"; signal 9 (SIGKILL)'
    acted = f"policy spec.policies[{events.index(event)}] {event}: RestartJob"
    assert sim.phases[:3] == ["Pending", "Running", "Restarting"]
    assert f"{why} in container main; {acted}" in sim.reason[1]
    assert sim.let_go().phase == "Failed"
    assert sim.reason[0] == "RetriesExhausted"
    assert sim.retries == (1, 1)


def test_a_kubelet_s_eviction_waits_for_its_timeout() -> None:
    sim = Simulation(job(task("worker", 1), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    sim.end_containers("worker-0", ContainerEnd("main", 137, finished_at=sim.now), reason="Evicted").wait(29.9)
    assert sim.phase == "Running"
    assert sim.wait(0.1).phase == "Aborted"


def test_an_evicted_pod_without_policy_is_recreated(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", "TerminateJob"))).run().evict("worker-0").let_go().run()
    assert sim.phases[-1] == "Running"
    assert sim.counts == {"running": 2}
    assert sim.retries == (0, 0)


def test_an_eviction_while_the_controller_is_away(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), EVICTED)).run().down()
    sim.evict("worker-0").let_go().up().let_go()
    assert sim.retries == (1, 0)
    assert sim.phase == "Pending"


def test_evictions_never_end_a_job(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1), EVICTED, max_retry=1)).run()
    for count in range(1, 6):
        sim.evict("worker-0").let_go().run()
        assert sim.retries == (count, 0)
    assert sim.phase == "Running"


def test_scaling_down_is_no_eviction(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3), on("PodEvicted", "TerminateJob"))).run().scale(worker=1).let_go()
    assert sim.phases == ["Pending", "Running"]
    assert sim.counts == {"running": 1}


def test_scaling_down_and_up_again_is_no_eviction(simulate: Simulate) -> None:
    """The pods that leave are not those that are wanted again."""
    sim = simulate(job(task("worker", 3), on("PodEvicted", "TerminateJob"))).run().scale(worker=1).scale(worker=3)
    sim.let_go().run()
    assert sim.phase == "Running"
    assert sim.counts == {"running": 3}


def test_the_pod_of_a_success_is_not_missed(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodEvicted", "TerminateJob"))).run().succeed("worker-0")
    sim.evict("worker-0")
    assert sim.pods == {"worker-1": "Running"}
    assert sim.counts == {"running": 1, "succeeded": 1}
    assert sim.restart_controller().pods == {"worker-1": "Running"}
    sim.succeed("worker-1")
    assert sim.phase == "Completed"
    assert sim.counts == {"succeeded": 2}


def test_the_pod_of_a_failure_is_missed(simulate: Simulate) -> None:
    """It must run again."""
    sim = simulate(job(task("worker", 2))).run().fail("worker-0").evict("worker-0")
    assert sim.pods == {"worker-0": "Pending", "worker-1": "Running"}


def test_a_timeout_of_an_eviction_ends_when_the_successor_runs(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    sim.evict("worker-0").let_go().wait(20)
    assert sim.run().wait(600).phase == "Running"
    sim.evict("worker-0").let_go().wait(29.9)
    assert sim.phase in {"Running", "Pending"}
    assert sim.wait(0.1).let_go().phase == "Aborted"


def test_a_timeout_of_an_eviction_ends_while_the_pod_still_lingers() -> None:
    sim = Simulation(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="10s")), slow=True).run()
    sim.ask_out("worker-0").fail("worker-0", 143).wait(9.9)
    assert sim.phase == "Running"
    assert sim.wait(0.1).phase == "Aborting"


def test_a_timeout_of_an_eviction_runs_on_while_the_successor_cannot_be_made() -> None:
    from pumice.reconcile.decision import CreatePod

    sim = Simulation(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    sim.refuse(CreatePod).evict("worker-0").wait(29.9)
    assert sim.phase == "Running"
    assert sim.wait(0.1).phase == "Aborted"


@pytest.mark.parametrize("fails_first", [True, False])
def test_an_eviction_is_not_lost_behind_another_policy(fails_first: bool) -> None:
    """Of two things that are due, one is dealt with in this pass and the other in the next."""
    sim = Simulation(job(task("worker", 3), on("PodFailed", "RestartPod"), on("PodEvicted", "AbortJob"))).run().down()
    for step in (1, 2):
        if (step == 1) is fails_first:
            sim.fail("worker-0")
        else:
            sim.evict("worker-1")
        sim.wait(1)
    assert sim.up().phase == "Aborted"


def test_an_eviction_is_not_lost_behind_a_command() -> None:
    sim = Simulation(job(task("worker", 2), on("PodEvicted", "AbortJob"))).run().down()
    sim.evict("worker-1")
    sim.command("SyncJob")
    assert sim.up().phase == "Aborted"


def test_preempted_restarts_only_that_pod(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3), on("PodEvicted", "RestartPod"))).run()
    before = sim.uids
    sim.evict("worker-1").let_go().run()
    assert sim.phase == "Running"
    assert sim.retries == (1, 0)
    assert {name for name, uid in sim.uids.items() if before[name] != uid} == {"worker-1"}
