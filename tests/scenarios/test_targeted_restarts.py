"""RestartTask, RestartPod, RestartPartition: the others go on as if nothing had happened."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import PartitionPolicy
from pumice.reconcile.decision import DeletePod
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}
PARTITIONS = PartitionPolicy(total_partitions=2, partition_size=2, min_partitions=2)


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name, uid in before.items() if after.get(name) != uid}


def _shared(sim: Simulation) -> dict[str, Any]:
    return {**sim.owned_objects, "group": sim.group}


@pytest.mark.parametrize(
    ("action", "partitions", "meant"),
    [
        pytest.param("RestartPod", None, {"worker-1"}, id="pod"),
        pytest.param("RestartTask", None, {"worker-0", "worker-1", "worker-2", "worker-3"}, id="task"),
        pytest.param("RestartPartition", PARTITIONS, {"worker-0", "worker-1"}, id="partition"),
    ],
)
def test_only_targeted_pods_are_recreated(
    simulate: Simulate, action: str, partitions: PartitionPolicy | None, meant: set[str]
) -> None:
    workers = task("worker", 4, partition_policy=partitions)
    sim = simulate(job(task("master", 1), workers, on("PodFailed", action), plugins=PLUGINS, max_retry=5)).run()
    before, shared = sim.uids, _shared(sim)
    sim.fail("worker-1")
    others = {name: "Running" for name in before if name not in meant}
    if sim.slow and len(meant) > 1:
        assert sim.phase == "Restarting"
        assert sim.pods == {**others, **dict.fromkeys(meant - {"worker-1"}, "Terminating")}
        assert sim.counts == {"running": len(others), "terminating": len(meant) - 1}
        assert _shared(sim) == shared
    sim.let_go()
    # With enough others running, the pods made anew are the only ones pending.
    assert sim.pods == {**others, **dict.fromkeys(meant, "Pending")}
    assert _changed(before, sim.uids) == meant
    assert _shared(sim) == shared
    assert sim.status.version == 0
    assert sim.retries == (1, 1)
    sim.run()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert _changed(before, sim.uids) == meant
    sim.succeed()
    assert sim.phase == "Completed"
    assert sim.counts == {"succeeded": 5}


def test_a_task_restarts_with_what_it_achieved(simulate: Simulate) -> None:
    """RestartTask runs the successes of the task again; those of other tasks stay."""
    sim = simulate(job(task("ps", 1), task("worker", 2, policies=[on("PodFailed", "RestartTask")]))).run()
    sim.succeed("ps-0", "worker-0").fail("worker-1").let_go()
    assert sim.pods == {"ps-0": "Succeeded", "worker-0": "Pending", "worker-1": "Pending"}
    assert sim.counts == {"pending": 2, "succeeded": 1}


def test_a_restart_grows_while_it_is_under_way(simulate: Simulate) -> None:
    """A second pod fails while the first restart waits: both are made anew, and one retry pays for it."""
    sim = simulate(job(task("worker", 3), on("PodFailed", "RestartTask"), task("ps", 2, policies=[])), slow=True).run()
    sim.fail("worker-0")
    assert sim.phase == "Restarting"
    assert sim.retries == (1, 1)
    sim.fail("ps-0")
    assert sim.retries == (1, 1)
    assert sim.pods == {"worker-1": "Terminating", "worker-2": "Terminating", "ps-1": "Terminating"}
    sim.let_go()
    assert sim.counts == {"pending": 5}
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]


def test_a_growing_restart_includes_every_target() -> None:
    """The pods that were meant first could not be removed yet when another one fails."""
    tasks = task("ps", 1), task("worker", 2)
    sim = Simulation(job(*tasks, on("PodFailed", "RestartTask"))).run()
    before = sim.uids
    sim.refuse(DeletePod).fail("worker-0")
    sim.fail("ps-0").refuse()
    assert sim.counts == {"pending": 3}
    assert _changed(before, sim.uids) == {"ps-0", "worker-0", "worker-1"}
    assert sim.retries == (1, 1)


def test_two_failures_at_once_are_one_restart(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3), on("PodFailed", "RestartPod"))).run()
    before = sim.uids
    sim.down()
    sim.fail("worker-0").fail("worker-2").up()
    assert sim.retries == (1, 1)
    assert _changed(before, sim.uids) == {"worker-0", "worker-2"}


def test_the_last_attempt_keeps_the_failed_pod(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", "RestartPod"), max_retry=2)).run()
    sim.fail("worker-0").run()
    assert sim.phase == "Running"
    kept = sim.uids["worker-0"]
    sim.fail("worker-0", 9).let_go()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending", "Running", "Restarting", "Failed"]
    assert sim.pods == {"worker-0": "Failed"}
    assert sim.uids["worker-0"] == kept
    assert sim.counts == {"failed": 1}
    assert sim.retries == (2, 2)


def test_a_restart_is_no_eviction(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", "RestartTask"), on("PodEvicted", "TerminateJob"))).run()
    sim.fail("worker-0").let_go().run()
    assert sim.phase == "Running"
    assert sim.retries == (1, 1)


def test_the_new_pod_is_no_target_of_the_old_restart(simulate: Simulate) -> None:
    """While another target still terminates, the pod made anew fails and is restarted on its own account."""
    sim = simulate(job(task("worker", 3, min_available=1), on("PodFailed", "RestartTask")), slow=True).run()
    sim.fail("worker-0")
    assert sim.pods == {"worker-1": "Terminating", "worker-2": "Terminating"} | {"worker-0": "Pending"}
    sim.run()
    assert sim.pods["worker-0"] == "Running"
    sim.fail("worker-0")
    assert sim.retries == (2, 2)
    sim.let_go().run()
    assert sim.counts == {"running": 3}
