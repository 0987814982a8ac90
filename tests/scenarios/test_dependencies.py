"""dependsOn: which task starts when, and a gang that takes it into account."""

from __future__ import annotations

import pytest

from tests.scenarios.builders import after, job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation


def _tasks_with_pods(sim: Simulation) -> set[str]:
    return {pod.task for pod in sim.seen}


def test_a_gang_starts_task_by_task(simulate: Simulate) -> None:
    """Volcano's gang would wait for pods that nobody may make. Here the group asks for what may start."""
    sim = simulate(job(task("ps", 2), task("worker", 3, depends_on=after("ps"))))
    assert _tasks_with_pods(sim) == {"ps"}
    assert sim.group is not None
    assert sim.group["minMember"] == 2
    assert sim.group["minTaskMember"] == {"ps": 2, "worker": 0}
    sim.run("ps-0")
    assert _tasks_with_pods(sim) == {"ps"}
    sim.run("ps-1")
    assert sim.counts == {"running": 2, "pending": 3}
    assert sim.group["minMember"] == 5
    assert sim.group["minTaskMember"] == {"ps": 2, "worker": 3}
    assert sim.phase == "Pending"
    assert sim.run().phase == "Running"
    assert sim.succeed().phase == "Completed"


def test_pods_that_are_not_ready_hold_back_the_others() -> None:
    sim = Simulation(job(task("ps", 1), task("worker", 1, depends_on=after("ps")))).run(ready=False)
    assert _tasks_with_pods(sim) == {"ps"}
    assert _tasks_with_pods(sim.change("ps-0", ready=True)) == {"ps", "worker"}


def test_a_terminating_pod_satisfies_no_dependency() -> None:
    sim = Simulation(job(task("ps", 1), task("worker", 1, depends_on=after("ps"))), slow=True).down()
    sim.run().ask_out("ps-0")
    assert _tasks_with_pods(sim.up()) == {"ps"}
    assert _tasks_with_pods(sim.let_go().run()) == {"ps", "worker"}


def test_a_success_is_ready(simulate: Simulate) -> None:
    sim = simulate(job(task("prepare", 1), task("worker", 1, depends_on=after("prepare")))).run().succeed("prepare-0")
    assert sim.pods == {"prepare-0": "Succeeded", "worker-0": "Pending"}
    sim.evict("prepare-0").evict("worker-0").let_go()
    assert sim.pods == {"worker-0": "Pending"}  # by memory


def test_only_as_many_as_the_task_needs() -> None:
    sim = Simulation(job(task("ps", 3, min_available=1), task("worker", 1, depends_on=after("ps")))).run("ps-2")
    assert _tasks_with_pods(sim) == {"ps", "worker"}


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
    sim = Simulation(job(task("a", 1), task("b", 1), task("c", 1, depends_on=after("a", "b", iteration=iteration))))
    for name in running:
        sim.run(name)
    assert ("c" in _tasks_with_pods(sim)) is starts


def test_completed_waits_for_the_end(simulate: Simulate) -> None:
    sim = simulate(job(task("prepare", 2), task("worker", 1, depends_on=after("prepare", condition="Completed")))).run()
    assert _tasks_with_pods(sim) == {"prepare"}
    assert _tasks_with_pods(sim.succeed("prepare-0")) == {"prepare"}
    assert sim.succeed("prepare-1").pods["worker-0"] == "Pending"
    assert sim.run().succeed().phase == "Completed"


def test_a_chain(simulate: Simulate) -> None:
    sim = simulate(job(task("a", 1), task("b", 1, depends_on=after("a")), task("c", 1, depends_on=after("b"))))
    seen = []
    for _ in range(3):
        seen.append(sorted(_tasks_with_pods(sim)))
        sim.run()
    assert seen == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert sim.phase == "Running"


def test_pods_that_exist_are_never_taken_back(simulate: Simulate) -> None:
    sim = simulate(job(task("ps", 1), task("worker", 2, depends_on=after("ps")))).run().run()
    sim.evict("ps-0").let_go()
    assert sim.pods == {"ps-0": "Pending", "worker-0": "Running", "worker-1": "Running"}
    sim.evict("worker-1").let_go()
    assert sim.pods["worker-1"] == "Pending"  # its task has begun


def test_a_restart_begins_from_the_start(simulate: Simulate) -> None:
    """Pods of the run before, which still terminate, make nobody ready."""
    tasks = task("ps", 2, min_available=1), task("worker", 1, depends_on=after("ps"))
    sim = simulate(job(*tasks, on("PodFailed", "RestartJob"))).run().run()
    assert sim.phase == "Running"
    sim.fail("worker-0").let_go()
    assert _tasks_with_pods(sim) == {"ps"}
    assert _tasks_with_pods(sim.run()) == {"ps", "worker"}


def test_a_running_job_goes_on_when_the_rest_may_start(simulate: Simulate) -> None:
    """With `minAvailable` of the first wave only, the job is Running before the second one starts."""
    sim = simulate(job(task("ps", 1), task("worker", 2, depends_on=after("ps")), min_available=1)).run()
    assert sim.phases == ["Pending", "Running"]
    assert sim.counts == {"running": 1, "pending": 2}
    assert sim.run().succeed().phase == "Completed"
