"""RestartTask, RestartPod, RestartPartition: the others go on as if nothing had happened."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import PartitionPolicy
from pumice.reconcile.decision import DeletePod
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}
PARTITIONS = PartitionPolicy(total_partitions=2, partition_size=2, min_partitions=2)


def _changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name, uid in before.items() if after.get(name) != uid}


def _shared(stage: Stage) -> dict[str, Any]:
    return {**stage.owned_objects, "group": stage.group}


@pytest.mark.parametrize(
    ("action", "partitions", "meant"),
    [
        pytest.param("RestartPod", None, {"worker-1"}, id="pod"),
        pytest.param("RestartTask", None, {"worker-0", "worker-1", "worker-2", "worker-3"}, id="task"),
        pytest.param("RestartPartition", PARTITIONS, {"worker-0", "worker-1"}, id="partition"),
    ],
)
def test_only_targeted_pods_are_recreated(
    stage: MakeStage, action: str, partitions: PartitionPolicy | None, meant: set[str]
) -> None:
    workers = task("worker", 4, partition_policy=partitions)
    play = stage(job(task("master", 1), workers, on("PodFailed", action), plugins=PLUGINS, max_retry=5)).run()
    before, shared = play.uids, _shared(play)
    play.fail("worker-1")
    others = {name: "Running" for name in before if name not in meant}
    if play.slow and len(meant) > 1:
        assert play.phase == "Restarting"
        assert play.pods == {**others, **dict.fromkeys(meant - {"worker-1"}, "Terminating")}
        assert play.counts == {"running": len(others), "terminating": len(meant) - 1}
        assert _shared(play) == shared
    play.let_go()
    # With enough others running, the pods made anew are the only ones pending.
    assert play.pods == {**others, **dict.fromkeys(meant, "Pending")}
    assert _changed(before, play.uids) == meant
    assert _shared(play) == shared
    assert play.status.version == 0
    assert play.retries == (1, 1)
    play.run()
    assert play.phases == ["Pending", "Running", "Restarting", "Pending", "Running"]
    assert _changed(before, play.uids) == meant
    play.succeed()
    assert play.phase == "Completed"
    assert play.counts == {"succeeded": 5}


def test_a_task_restarts_with_what_it_achieved(stage: MakeStage) -> None:
    """RestartTask runs the successes of the task again; those of other tasks stay."""
    play = stage(job(task("ps", 1), task("worker", 2, policies=[on("PodFailed", "RestartTask")]))).run()
    play.succeed("ps-0", "worker-0").fail("worker-1").let_go()
    assert play.pods == {"ps-0": "Succeeded", "worker-0": "Pending", "worker-1": "Pending"}
    assert play.counts == {"pending": 2, "succeeded": 1}


def test_a_restart_grows_while_it_is_under_way(stage: MakeStage) -> None:
    """A second pod fails while the first restart waits: both are made anew, and one retry pays for it."""
    play = stage(job(task("worker", 3), on("PodFailed", "RestartTask"), task("ps", 2, policies=[])), slow=True).run()
    play.fail("worker-0")
    assert play.phase == "Restarting"
    assert play.retries == (1, 1)
    play.fail("ps-0")
    assert play.retries == (1, 1)
    assert play.pods == {"worker-1": "Terminating", "worker-2": "Terminating", "ps-1": "Terminating"}
    play.let_go()
    assert play.counts == {"pending": 5}
    assert play.phases == ["Pending", "Running", "Restarting", "Pending"]


def test_a_growing_restart_includes_every_target() -> None:
    """The pods that were meant first could not be removed yet when another one fails."""
    tasks = task("ps", 1), task("worker", 2)
    play = Stage(job(*tasks, on("PodFailed", "RestartTask"))).run()
    before = play.uids
    play.refuse(DeletePod).fail("worker-0")
    play.fail("ps-0").refuse()
    assert play.counts == {"pending": 3}
    assert _changed(before, play.uids) == {"ps-0", "worker-0", "worker-1"}
    assert play.retries == (1, 1)


def test_two_failures_at_once_are_one_restart(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3), on("PodFailed", "RestartPod"))).run()
    before = play.uids
    play.down()
    play.fail("worker-0").fail("worker-2").up()
    assert play.retries == (1, 1)
    assert _changed(before, play.uids) == {"worker-0", "worker-2"}


def test_the_last_attempt_keeps_the_failed_pod(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", "RestartPod"), max_retry=2)).run()
    play.fail("worker-0").run()
    assert play.phase == "Running"
    kept = play.uids["worker-0"]
    play.fail("worker-0", 9).let_go()
    assert play.phases == ["Pending", "Running", "Restarting", "Pending", "Running", "Restarting", "Failed"]
    assert play.pods == {"worker-0": "Failed"}
    assert play.uids["worker-0"] == kept
    assert play.counts == {"failed": 1}
    assert play.retries == (2, 2)


def test_a_restart_is_no_eviction(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", "RestartTask"), on("PodEvicted", "TerminateJob"))).run()
    play.fail("worker-0").let_go().run()
    assert play.phase == "Running"
    assert play.retries == (1, 1)


def test_the_new_pod_is_no_target_of_the_old_restart(stage: MakeStage) -> None:
    """While another target still terminates, the pod made anew fails and is restarted on its own account."""
    play = stage(job(task("worker", 3, min_available=1), on("PodFailed", "RestartTask")), slow=True).run()
    play.fail("worker-0")
    assert play.pods == {"worker-1": "Terminating", "worker-2": "Terminating"} | {"worker-0": "Pending"}
    play.run()
    assert play.pods["worker-0"] == "Running"
    play.fail("worker-0")
    assert play.retries == (2, 2)
    play.let_go().run()
    assert play.counts == {"running": 3}
