"""PodEvicted: a pod that we did not remove is gone, or has failed while it was being deleted."""

from __future__ import annotations

import pytest

from pumice.model.snapshot import ContainerEnd
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

EVICTED = on("PodEvicted", "RestartJob")


def test_a_pod_that_is_gone_was_evicted(stage: MakeStage) -> None:
    """Not at the request: it may run on for a while. Nobody failed, so nothing of maxRetry is spent."""
    play = stage(job(task("worker", 2), EVICTED)).run().evict("worker-0")
    if play.slow:
        assert play.phase == "Running"
        assert play.counts == {"running": 1, "terminating": 1}
    play.let_go("worker-0")
    assert play.phase == ("Restarting" if play.slow else "Pending")
    if play.slow:
        assert play.reason == (
            "Evicted",
            "worker-0 was deleted by someone else; policy spec.policies[0] PodEvicted: RestartJob",
        )
    play.let_go().run()
    assert play.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert play.retries == (1, 0)


def test_a_pod_that_fails_on_its_way_out_was_evicted() -> None:
    """Its process ends with 143: that is no failure of its own."""
    play = Stage(job(task("worker", 2), on("PodFailed", "TerminateJob"), EVICTED), slow=True).run().ask_out("worker-0")
    assert play.phase == "Running"
    play.fail("worker-0", 143)
    assert play.phase == "Restarting"
    play.let_go()
    assert play.phase == "Pending"
    assert play.retries == (1, 0)


def test_a_pod_that_ends_well_on_its_way_out_was_evicted_all_the_same() -> None:
    """It was told to end and did so in good order; that is not the end of its work."""
    play = Stage(job(task("worker", 2), EVICTED), slow=True).run().ask_out("worker-0").succeed("worker-0")
    assert play.phase == "Running"
    assert play.counts == {"running": 1, "terminating": 1}
    play.let_go("worker-0")
    assert play.phase == "Restarting"
    assert play.let_go().counts == {"pending": 2}


@pytest.mark.parametrize("events", [("PodFailed", "PodEvicted"), ("PodEvicted", "PodFailed"), ("PodFailed",)])
def test_a_pod_that_its_kubelet_evicted_spends_a_retry(events: tuple[str, ...]) -> None:
    """It used too much: that is a failure. The first PodEvicted policy acts, or else the first PodFailed policy."""
    actions = {"PodEvicted": "RestartJob", "PodFailed": "AbortJob" if "PodEvicted" in events else "RestartJob"}
    policies = [on(event, actions[event]) for event in events]
    play = Stage(job(task("worker", 2), *policies, max_retry=1), slow=True).run()
    play.change("worker-0", message='Usage of EmptyDir volume "s" exceeds the limit "1Mi". ')
    end = ContainerEnd("main", 137, "Error")
    play.end_containers("worker-0", end, reason="Evicted")
    event = "PodEvicted" if "PodEvicted" in events else "PodFailed"
    why = 'worker-0 failed first: Evicted: Usage of EmptyDir volume "s" exceeds the limit "1Mi"; signal 9 (SIGKILL)'
    acted = f"policy spec.policies[{events.index(event)}] {event}: RestartJob"
    assert play.phases[:3] == ["Pending", "Running", "Restarting"]
    assert f"{why} in container main; {acted}" in play.reason[1]
    assert play.let_go().phase == "Failed"
    assert play.reason[0] == "RetriesExhausted"
    assert play.retries == (1, 1)


def test_a_kubelet_s_eviction_waits_for_its_timeout() -> None:
    play = Stage(job(task("worker", 1), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    play.end_containers("worker-0", ContainerEnd("main", 137, finished_at=play.now), reason="Evicted").wait(29.9)
    assert play.phase == "Running"
    assert play.wait(0.1).phase == "Aborted"


def test_an_evicted_pod_without_policy_is_recreated(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", "TerminateJob"))).run().evict("worker-0").let_go().run()
    assert play.phases[-1] == "Running"
    assert play.counts == {"running": 2}
    assert play.retries == (0, 0)


def test_an_eviction_while_the_controller_is_away(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), EVICTED)).run().down()
    play.evict("worker-0").let_go().up().let_go()
    assert play.retries == (1, 0)
    assert play.phase == "Pending"


def test_evictions_never_end_a_job(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1), EVICTED, max_retry=1)).run()
    for count in range(1, 6):
        play.evict("worker-0").let_go().run()
        assert play.retries == (count, 0)
    assert play.phase == "Running"


def test_scaling_down_is_no_eviction(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3), on("PodEvicted", "TerminateJob"))).run().scale(worker=1).let_go()
    assert play.phases == ["Pending", "Running"]
    assert play.counts == {"running": 1}


def test_scaling_down_and_up_again_is_no_eviction(stage: MakeStage) -> None:
    """The pods that leave are not those that are wanted again."""
    play = stage(job(task("worker", 3), on("PodEvicted", "TerminateJob"))).run().scale(worker=1).scale(worker=3)
    play.let_go().run()
    assert play.phase == "Running"
    assert play.counts == {"running": 3}


def test_the_pod_of_a_success_is_not_missed(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodEvicted", "TerminateJob"))).run().succeed("worker-0")
    play.evict("worker-0")
    assert play.pods == {"worker-1": "Running"}
    assert play.counts == {"running": 1, "succeeded": 1}
    assert play.restart_controller().pods == {"worker-1": "Running"}
    play.succeed("worker-1")
    assert play.phase == "Completed"
    assert play.counts == {"succeeded": 2}


def test_the_pod_of_a_failure_is_missed(stage: MakeStage) -> None:
    """It must run again."""
    play = stage(job(task("worker", 2))).run().fail("worker-0").evict("worker-0")
    assert play.pods == {"worker-0": "Pending", "worker-1": "Running"}


def test_a_timeout_of_an_eviction_ends_when_the_successor_runs(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    play.evict("worker-0").let_go().wait(20)
    assert play.run().wait(600).phase == "Running"
    play.evict("worker-0").let_go().wait(29.9)
    assert play.phase in {"Running", "Pending"}
    assert play.wait(0.1).let_go().phase == "Aborted"


def test_a_timeout_of_an_eviction_ends_while_the_pod_still_lingers() -> None:
    play = Stage(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="10s")), slow=True).run()
    play.ask_out("worker-0").fail("worker-0", 143).wait(9.9)
    assert play.phase == "Running"
    assert play.wait(0.1).phase == "Aborting"


def test_a_timeout_of_an_eviction_runs_on_while_the_successor_cannot_be_made() -> None:
    from pumice.reconcile.decision import CreatePod

    play = Stage(job(task("worker", 2), on("PodEvicted", "AbortJob", timeout="30s"))).run()
    play.refuse(CreatePod).evict("worker-0").wait(29.9)
    assert play.phase == "Running"
    assert play.wait(0.1).phase == "Aborted"


@pytest.mark.parametrize("fails_first", [True, False])
def test_an_eviction_is_not_lost_behind_another_policy(fails_first: bool) -> None:
    """Of two things that are due, one is dealt with in this pass and the other in the next."""
    play = Stage(job(task("worker", 3), on("PodFailed", "RestartPod"), on("PodEvicted", "AbortJob"))).run().down()
    for step in (1, 2):
        if (step == 1) is fails_first:
            play.fail("worker-0")
        else:
            play.evict("worker-1")
        play.wait(1)
    assert play.up().phase == "Aborted"


def test_an_eviction_is_not_lost_behind_a_command() -> None:
    play = Stage(job(task("worker", 2), on("PodEvicted", "AbortJob"))).run().down()
    play.evict("worker-1")
    play.command("SyncJob")
    assert play.up().phase == "Aborted"


def test_preempted_restarts_only_that_pod(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3), on("PodEvicted", "RestartPod"))).run()
    before = play.uids
    play.evict("worker-1").let_go().run()
    assert play.phase == "Running"
    assert play.retries == (1, 0)
    assert {name for name, uid in play.uids.items() if before[name] != uid} == {"worker-1"}
