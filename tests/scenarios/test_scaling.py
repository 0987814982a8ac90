"""Scaling up and down, elastic jobs, and how the PodGroup follows."""

from __future__ import annotations

import msgspec

from tests.builders import a_container, a_template
from tests.scenarios.builders import job, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

CPU = a_template(a_container(resources={"requests": {"cpu": "2"}}), restartPolicy="Never")


def test_scaled_up(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), plugins={"svc": [], "ssh": []})).run()
    before, secret = play.uids, play.owned_objects["Secret/train-ssh"]
    play.scale(worker=4)
    assert play.phase == "Pending"  # the gang has grown, too, and is not together yet
    assert play.counts == {"running": 2, "pending": 2}
    assert {name: uid for name, uid in play.uids.items() if name in before} == before
    hosts = play.owned_objects["ConfigMap/train-svc"]["data"]["worker.host"]
    assert hosts.count("train-worker-") == 4
    assert play.owned_objects["Secret/train-ssh"] == secret
    assert play.run().counts == {"running": 4}
    assert play.phases == ["Pending", "Running", "Pending", "Running"]
    assert play.succeed().phase == "Completed"


def test_scaled_up_without_a_larger_gang(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run().scale(worker=4, least=2)
    assert play.phases == ["Pending", "Running"]
    assert play.counts == {"running": 2, "pending": 2}


def test_scaled_down(stage: MakeStage) -> None:
    play = stage(job(task("worker", 4))).run()
    play.succeed("worker-3").scale(worker=2)
    if play.slow:
        assert play.counts == {"running": 2, "terminating": 1}
    play.let_go()
    assert play.phase == "Running"
    assert play.pods == {"worker-0": "Running", "worker-1": "Running"}
    assert play.counts == {"running": 2}
    assert play.retries == (0, 0)
    assert play.succeed().phase == "Completed"
    assert play.counts == {"succeeded": 2}


def test_scaled_to_nothing_and_back(stage: MakeStage) -> None:
    """The phase is kept, and the job goes on when there are pods again."""
    play = stage(job(task("worker", 2))).run().scale(worker=0).let_go()
    assert play.phase == "Running"
    assert play.pods == {}
    assert play.counts == {}
    play.scale(worker=2)
    assert play.counts == {"pending": 2}
    assert play.run().succeed().phase == "Completed"


def test_an_elastic_job_falls_back_to_pending(stage: MakeStage) -> None:
    """Running needs `minAvailable` pods; with more than that pending it waits again."""
    play = stage(job(task("worker", 4, min_available=2))).run("worker-0", "worker-1")
    assert play.phase == "Running"
    play.evict("worker-0").let_go()
    assert play.phase == "Pending"
    assert play.counts == {"running": 1, "pending": 3}
    play.run("worker-0")
    assert play.phases == ["Pending", "Running", "Pending", "Running"]


def test_scaled_down_while_it_waits(stage: MakeStage) -> None:
    """The gang becomes smaller than what runs already."""
    play = stage(job(task("worker", 4))).run("worker-0", "worker-1")
    assert play.phase == "Pending"
    assert play.scale(worker=2).let_go().phase == "Running"


def test_the_group_follows(stage: MakeStage) -> None:
    play = stage(job(task("ps", 1, template=CPU), task("worker", 2, template=CPU))).run()
    assert play.group is not None
    assert play.group["minMember"] == 3
    assert play.group["minTaskMember"] == {"ps": 1, "worker": 2}
    assert play.group["minResources"]["cpu"] == "6"
    play.scale(worker=5)
    assert play.group["minMember"] == 6
    assert play.group["minTaskMember"] == {"ps": 1, "worker": 5}
    assert play.group["minResources"]["cpu"] == "12"
    play.run().scale(worker=3, least=2).let_go()
    assert play.group["minMember"] == 2
    assert play.group["minResources"]["cpu"] == "4"
    assert play.group["minTaskMember"] == {"ps": 1, "worker": 3}


def test_the_group_follows_the_priority(stage: MakeStage) -> None:
    play = stage(job(task("worker", 1))).run()
    play.update(msgspec.structs.replace(play.job.spec, priority_class_name="high"))
    assert play.group is not None
    assert play.group["priorityClassName"] == "high"
    assert play.phase == "Running"


def test_pods_are_made_when_the_group_is_in_the_queue() -> None:
    play = Stage(job(task("worker", 2)), admitted=False)
    for phase in ("", "Pending"):
        play.set_group(phase, "3 pods are more than the queue has room for")
        assert play.pods == {}
        assert play.phase == "Pending"
        assert play.reason == ("Unschedulable", "3 pods are more than the queue has room for")
    assert len(play.messages("PodGroupPending")) == 1
    play.set_group("Inqueue")
    assert play.counts == {"pending": 2}
    assert play.reason == ("", "")


def test_an_unschedulable_gang_says_why(stage: MakeStage) -> None:
    """Kubernetes' own scheduler looks at a gang only when its pods are there."""
    play = stage(job(task("worker", 2)))
    play.set_group("Inqueue", "minCount (2) cannot be satisfied: 1 scheduled, 1 remaining")
    assert play.reason == ("Unschedulable", "minCount (2) cannot be satisfied: 1 scheduled, 1 remaining")
    play.set_group("Inqueue").run()
    assert (play.phase, play.reason) == ("Running", ("", ""))


def test_counts_are_true_while_the_group_is_pending(stage: MakeStage) -> None:
    play = stage(job(task("worker", 3))).run().set_group("Pending").fail("worker-0").succeed("worker-1")
    assert play.counts == {"running": 1, "succeeded": 1, "failed": 1}
    assert play.succeed("worker-2").phase == "Failed"


def test_without_a_gang_pods_are_made_at_once(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2)), gang=False)
    assert play.group is None
    assert play.counts == {"pending": 2}
    assert play.run().succeed().phase == "Completed"


def test_a_removed_pod_group_is_recreated(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run().lose("PodGroup", "")
    assert play.group is not None
    assert play.phases == ["Pending", "Running"]


def test_what_a_scheduler_adds_to_the_group_is_left_alone() -> None:
    play = Stage(job(task("worker", 2))).run()
    play.world.groups[play.key].manifest["spec"]["subGroupPolicy"] = []
    play.world.groups[play.key].manifest["metadata"]["labels"] = {"seen": "yes"}
    done = len(play.engine.done)
    play.restart_controller()
    assert play.engine.done[done:] == []


def test_a_group_of_an_edited_spec_is_put_right() -> None:
    play = Stage(job(task("worker", 2))).run()
    play.world.groups[play.key].manifest["spec"]["minMember"] = 1
    play.restart_controller()
    assert play.group is not None
    assert play.group["minMember"] == 2
