"""What the status says: conditions, times, and who failed first."""

from __future__ import annotations

import datetime as dt

import pytest

from pumice.model.snapshot import ContainerEnd
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation


def _duration(sim: Simulation) -> str | None:
    return sim.status.running_duration


def _at(second: int) -> str:
    return f"2000-01-01T00:00:{second:02}Z"


def test_the_transition_time_moves_only_with_the_phase(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3))).wait(2).run().wait(3).succeed("worker-0").wait(4).fail("worker-1")
    assert sim.status.state.last_transition_time == _at(2)
    sim.wait(1).succeed("worker-2")
    assert sim.status.state.last_transition_time == _at(10)
    assert sim.wait(5).restart_controller().status.state.last_transition_time == _at(10)


def test_conditions_keep_the_newest_of_each_phase_in_order(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1), on("PodFailed", "RestartJob"))).wait(1).run().wait(1).fail("worker-0")
    sim.wait(1).run().wait(1).succeed()
    assert [(one.status, one.last_transition_time) for one in sim.status.conditions] == [
        ("Restarting", _at(2)),
        ("Pending", _at(2)),
        ("Running", _at(3)),
        ("Completed", _at(4)),
    ]


def test_the_running_duration_counts_from_the_first_running_to_the_end(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1), on("PodFailed", "RestartJob"))).wait(100).run().wait(20).fail("worker-0")
    assert _duration(sim) is None
    sim.wait(10).run().wait(40).succeed()
    assert _duration(sim) == "1m10s"
    assert sim.wait(1000).restart_controller().status.running_duration == "1m10s"


@pytest.mark.parametrize(
    ("code", "fields", "reason", "how"),
    [
        pytest.param(1, {}, "PodFailed", "exit code 1", id="code"),
        pytest.param(137, {"reason": "OOMKilled"}, "OOMKilled", "signal 9 (SIGKILL), OOMKilled", id="out of memory"),
        pytest.param(137, {"reason": "Error"}, "PodFailed", "signal 9 (SIGKILL)", id="killed"),
        pytest.param(139, {}, "PodFailed", "signal 11 (SIGSEGV)", id="crashed"),
        pytest.param(1, {"signal": 6}, "PodFailed", "signal 6 (SIGABRT)", id="signal given"),
        pytest.param(255, {}, "PodFailed", "exit code 255", id="no signal"),
        pytest.param(127, {"reason": "StartError"}, "PodFailed", "exit code 127, StartError", id="telling reason"),
    ],
)
def test_how_the_first_one_failed(code: int, fields: dict[str, object], reason: str, how: str) -> None:
    sim = Simulation(job(task("main", 1))).run().fail("main-0", code, **fields)  # type: ignore[arg-type]  # keywords
    assert sim.reason == (reason, f"main-0 failed first: {how}")
    assert sim.messages("Failed") == [f"main-0 failed first: {how}"]


def test_pods_that_only_followed(simulate: Simulate) -> None:
    """Pods that lose their peer fail, too: the first one is the one to look at, wherever it stands in the list."""
    sim = simulate(job(task("worker", 4), on("PodFailed", "TerminateJob"))).run().down()
    sim.fail("worker-2", 137, "OOMKilled").wait(1)
    sim.fail("worker-0", 1).wait(1)
    sim.fail("worker-3", 1).up().let_go()
    assert sim.phase == "Terminated"
    assert sim.reason == (
        "OOMKilled",
        (
            "worker-2 failed first: signal 9 (SIGKILL), OOMKilled in container main; 2 others followed"
            "; policy spec.policies[0] PodFailed: TerminateJob"
        ),
    )


def test_an_eviction_by_the_node(simulate: Simulate) -> None:
    """It has failed, not been removed: PodFailed, with the reason that the kubelet gave."""
    sim = simulate(job(task("worker", 1))).run().end_containers("worker-0", reason="Evicted")
    assert sim.reason == ("Evicted", "worker-0 failed first: Evicted")


def test_a_pod_without_a_cause(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run().end_containers("worker-0")
    assert sim.reason == ("PodFailed", "worker-0 failed first: for an unknown reason")


def test_the_container_that_failed_first_is_named() -> None:
    def end(name: str, code: int, second: int) -> ContainerEnd:
        return ContainerEnd(name, code, finished_at=dt.datetime(2000, 1, 1, 0, 0, second, tzinfo=dt.UTC))

    sim = Simulation(job(task("worker", 1))).run().wait(10)
    sim.end_containers("worker-0", end("sidecar", 143, 9), end("trainer", 2, 8), end("prepare", 0, 1))
    assert sim.reason == ("PodFailed", "worker-0 failed first: exit code 2 in container trainer")


def test_the_budget_ended_it_and_the_cause_is_named(simulate: Simulate) -> None:
    sim = (
        simulate(job(task("worker", 2), on("PodFailed", "RestartJob"), max_retry=1)).run().fail("worker-1", 7).let_go()
    )
    assert sim.reason == (
        "RetriesExhausted",
        (
            "all 1 attempts failed (maxRetry); the last cause: worker-1 failed first: exit code 7 in container main; "
            "policy spec.policies[0] PodFailed: RestartJob"
        ),
    )


def test_what_is_over_is_not_explained_any_more(simulate: Simulate) -> None:
    """A job that runs again wants for nothing; the events still tell of the failure."""
    sim = simulate(job(task("worker", 1), on("PodFailed", "RestartJob"))).run().fail("worker-0").let_go().run()
    assert sim.reason == ("", "")
    (acted,) = [event for event in sim.events if event.policy]
    assert (acted.pod, str(acted.policy), acted.event) == ("worker-0", "spec.policies[0]", "PodFailed")
    assert acted.action == "RestartJob"
    assert "exit code 1" in acted.message
