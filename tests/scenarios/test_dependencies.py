"""dependsOn: which task starts when, and a gang that takes it into account."""

from __future__ import annotations

import pytest

from tests.scenarios.builders import after, job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage


def _tasks_with_pods(play: Stage) -> set[str]:
    return {pod.task for pod in play.seen}


def test_a_gang_starts_task_by_task(stage: MakeStage) -> None:
    """Volcano's gang would wait for pods that nobody may make. Here the group asks for what may start."""
    play = stage(job(task("ps", 2), task("worker", 3, depends_on=after("ps"))))
    assert _tasks_with_pods(play) == {"ps"}
    assert play.group is not None
    assert play.group["minMember"] == 2
    assert play.group["minTaskMember"] == {"ps": 2, "worker": 0}
    play.run("ps-0")
    assert _tasks_with_pods(play) == {"ps"}
    play.run("ps-1")
    assert play.counts == {"running": 2, "pending": 3}
    assert play.group["minMember"] == 5
    assert play.group["minTaskMember"] == {"ps": 2, "worker": 3}
    assert play.phase == "Pending"
    assert play.run().phase == "Running"
    assert play.succeed().phase == "Completed"


def test_pods_that_are_not_ready_hold_back_the_others() -> None:
    play = Stage(job(task("ps", 1), task("worker", 1, depends_on=after("ps")))).run(ready=False)
    assert _tasks_with_pods(play) == {"ps"}
    assert _tasks_with_pods(play.change("ps-0", ready=True)) == {"ps", "worker"}


def test_a_terminating_pod_satisfies_no_dependency() -> None:
    play = Stage(job(task("ps", 1), task("worker", 1, depends_on=after("ps"))), slow=True).down()
    play.run().ask_out("ps-0")
    assert _tasks_with_pods(play.up()) == {"ps"}
    assert _tasks_with_pods(play.let_go().run()) == {"ps", "worker"}


def test_a_success_is_ready(stage: MakeStage) -> None:
    play = stage(job(task("prepare", 1), task("worker", 1, depends_on=after("prepare")))).run().succeed("prepare-0")
    assert play.pods == {"prepare-0": "Succeeded", "worker-0": "Pending"}
    play.evict("prepare-0").evict("worker-0").let_go()
    assert play.pods == {"worker-0": "Pending"}  # by memory


def test_only_as_many_as_the_task_needs() -> None:
    play = Stage(job(task("ps", 3, min_available=1), task("worker", 1, depends_on=after("ps")))).run("ps-2")
    assert _tasks_with_pods(play) == {"ps", "worker"}


@pytest.mark.parametrize(
    ("iteration", "running", "starts"),
    [
        pytest.param("any", [], False, id="any, none"),
        pytest.param("any", ["b-0"], True, id="any, one"),
        pytest.param("all", ["b-0"], False, id="all, one"),
        pytest.param("", ["b-0"], False, id="default, one"),
        pytest.param("all", ["a-0", "b-0"], True, id="all, both"),
    ],
)
def test_any_or_all(iteration: str, running: list[str], starts: bool) -> None:
    play = Stage(job(task("a", 1), task("b", 1), task("c", 1, depends_on=after("a", "b", iteration=iteration))))
    for name in running:
        play.run(name)
    assert ("c" in _tasks_with_pods(play)) is starts


def test_completed_waits_for_the_end(stage: MakeStage) -> None:
    play = stage(job(task("prepare", 2), task("worker", 1, depends_on=after("prepare", condition="Completed")))).run()
    assert _tasks_with_pods(play) == {"prepare"}
    assert _tasks_with_pods(play.succeed("prepare-0")) == {"prepare"}
    assert play.succeed("prepare-1").pods["worker-0"] == "Pending"
    assert play.run().succeed().phase == "Completed"


def test_a_chain(stage: MakeStage) -> None:
    play = stage(job(task("a", 1), task("b", 1, depends_on=after("a")), task("c", 1, depends_on=after("b"))))
    seen = []
    for _ in range(3):
        seen.append(sorted(_tasks_with_pods(play)))
        play.run()
    assert seen == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert play.phase == "Running"


def test_pods_that_exist_are_never_taken_back(stage: MakeStage) -> None:
    play = stage(job(task("ps", 1), task("worker", 2, depends_on=after("ps")))).run().run()
    play.evict("ps-0").let_go()
    assert play.pods == {"ps-0": "Pending", "worker-0": "Running", "worker-1": "Running"}
    play.evict("worker-1").let_go()
    assert play.pods["worker-1"] == "Pending"  # its task has begun


def test_a_restart_begins_from_the_start(stage: MakeStage) -> None:
    """Pods of the run before, which still terminate, make nobody ready."""
    tasks = task("ps", 2, min_available=1), task("worker", 1, depends_on=after("ps"))
    play = stage(job(*tasks, on("PodFailed", "RestartJob"))).run().run()
    assert play.phase == "Running"
    play.fail("worker-0").let_go()
    assert _tasks_with_pods(play) == {"ps"}
    assert _tasks_with_pods(play.run()) == {"ps", "worker"}


def test_a_running_job_goes_on_when_the_rest_may_start(stage: MakeStage) -> None:
    """With `minAvailable` of the first wave only, the job is Running before the second one starts."""
    play = stage(job(task("ps", 1), task("worker", 2, depends_on=after("ps")), min_available=1)).run()
    assert play.phases == ["Pending", "Running"]
    assert play.counts == {"running": 1, "pending": 2}
    assert play.run().succeed().phase == "Completed"
