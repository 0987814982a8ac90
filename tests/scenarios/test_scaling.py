"""Scaling up and down, elastic jobs, and how the PodGroup follows."""

from __future__ import annotations

import msgspec

from tests.builders import a_container, a_template
from tests.scenarios.builders import job, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

CPU = a_template(a_container(resources={"requests": {"cpu": "2"}}), restartPolicy="Never")


def test_scaled_up(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), plugins={"svc": [], "ssh": []})).run()
    before, secret = sim.uids, sim.owned_objects["Secret/train-ssh"]
    sim.scale(worker=4)
    assert sim.phase == "Pending"  # the gang has grown, too, and is not together yet
    assert sim.counts == {"running": 2, "pending": 2}
    assert {name: uid for name, uid in sim.uids.items() if name in before} == before
    hosts = sim.owned_objects["ConfigMap/train-svc"]["data"]["worker.host"]
    assert hosts.count("train-worker-") == 4
    assert sim.owned_objects["Secret/train-ssh"] == secret
    assert sim.run().counts == {"running": 4}
    assert sim.phases == ["Pending", "Running", "Pending", "Running"]
    assert sim.succeed().phase == "Completed"


def test_scaled_up_without_a_larger_gang(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run().scale(worker=4, least=2)
    assert sim.phases == ["Pending", "Running"]
    assert sim.counts == {"running": 2, "pending": 2}


def test_scaled_down(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 4))).run()
    sim.succeed("worker-3").scale(worker=2)
    if sim.slow:
        assert sim.counts == {"running": 2, "terminating": 1}
    sim.let_go()
    assert sim.phase == "Running"
    assert sim.pods == {"worker-0": "Running", "worker-1": "Running"}
    assert sim.counts == {"running": 2}
    assert sim.retries == (0, 0)
    assert sim.succeed().phase == "Completed"
    assert sim.counts == {"succeeded": 2}


def test_scaled_to_nothing_and_back(simulate: Simulate) -> None:
    """The phase is kept, and the job goes on when there are pods again."""
    sim = simulate(job(task("worker", 2))).run().scale(worker=0).let_go()
    assert sim.phase == "Running"
    assert sim.pods == {}
    assert sim.counts == {}
    sim.scale(worker=2)
    assert sim.counts == {"pending": 2}
    assert sim.run().succeed().phase == "Completed"


def test_an_elastic_job_falls_back_to_pending(simulate: Simulate) -> None:
    """Running needs `minAvailable` pods; with more than that pending it waits again."""
    sim = simulate(job(task("worker", 4, min_available=2))).run("worker-0", "worker-1")
    assert sim.phase == "Running"
    sim.evict("worker-0").let_go()
    assert sim.phase == "Pending"
    assert sim.counts == {"running": 1, "pending": 3}
    sim.run("worker-0")
    assert sim.phases == ["Pending", "Running", "Pending", "Running"]


def test_scaled_down_while_it_waits(simulate: Simulate) -> None:
    """The gang becomes smaller than what runs already."""
    sim = simulate(job(task("worker", 4))).run("worker-0", "worker-1")
    assert sim.phase == "Pending"
    assert sim.scale(worker=2).let_go().phase == "Running"


def test_the_group_follows(simulate: Simulate) -> None:
    sim = simulate(job(task("ps", 1, template=CPU), task("worker", 2, template=CPU))).run()
    assert sim.group is not None
    assert sim.group["minMember"] == 3
    assert sim.group["minTaskMember"] == {"ps": 1, "worker": 2}
    assert sim.group["minResources"]["cpu"] == "6"
    sim.scale(worker=5)
    assert sim.group["minMember"] == 6
    assert sim.group["minTaskMember"] == {"ps": 1, "worker": 5}
    assert sim.group["minResources"]["cpu"] == "12"
    sim.run().scale(worker=3, least=2).let_go()
    assert sim.group["minMember"] == 2
    assert sim.group["minResources"]["cpu"] == "4"
    assert sim.group["minTaskMember"] == {"ps": 1, "worker": 3}


def test_the_group_follows_the_priority(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 1))).run()
    sim.update(msgspec.structs.replace(sim.job.spec, priority_class_name="high"))
    assert sim.group is not None
    assert sim.group["priorityClassName"] == "high"
    assert sim.phase == "Running"


def test_pods_are_made_when_the_group_is_in_the_queue() -> None:
    sim = Simulation(job(task("worker", 2)), admitted=False)
    for phase in ("", "Pending"):
        sim.set_group(phase, "3 pods are more than the queue has room for")
        assert sim.pods == {}
        assert sim.phase == "Pending"
        assert sim.reason == ("Unschedulable", "3 pods are more than the queue has room for")
    assert len(sim.messages("PodGroupPending")) == 1
    sim.set_group("Inqueue")
    assert sim.counts == {"pending": 2}
    assert sim.reason == ("", "")


def test_an_unschedulable_gang_says_why(simulate: Simulate) -> None:
    """Kubernetes' own scheduler looks at a gang only when its pods are there."""
    sim = simulate(job(task("worker", 2)))
    sim.set_group("Inqueue", "minCount (2) cannot be satisfied: 1 scheduled, 1 remaining")
    assert sim.reason == ("Unschedulable", "minCount (2) cannot be satisfied: 1 scheduled, 1 remaining")
    sim.set_group("Inqueue").run()
    assert (sim.phase, sim.reason) == ("Running", ("", ""))


def test_counts_are_true_while_the_group_is_pending(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 3))).run().set_group("Pending").fail("worker-0").succeed("worker-1")
    assert sim.counts == {"running": 1, "succeeded": 1, "failed": 1}
    assert sim.succeed("worker-2").phase == "Failed"


def test_without_a_gang_pods_are_made_at_once(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2)), gang=False)
    assert sim.group is None
    assert sim.counts == {"pending": 2}
    assert sim.run().succeed().phase == "Completed"


def test_a_removed_pod_group_is_recreated(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run().lose("PodGroup", "")
    assert sim.group is not None
    assert sim.phases == ["Pending", "Running"]


def test_what_a_scheduler_adds_to_the_group_is_left_alone() -> None:
    sim = Simulation(job(task("worker", 2))).run()
    sim.world.groups[sim.key].manifest["spec"]["subGroupPolicy"] = []
    sim.world.groups[sim.key].manifest["metadata"]["labels"] = {"seen": "yes"}
    done = len(sim.engine.done)
    sim.restart_controller()
    assert sim.engine.done[done:] == []


def test_a_group_of_an_edited_spec_is_put_right() -> None:
    sim = Simulation(job(task("worker", 2))).run()
    sim.world.groups[sim.key].manifest["spec"]["minMember"] = 1
    sim.restart_controller()
    assert sim.group is not None
    assert sim.group["minMember"] == 2
