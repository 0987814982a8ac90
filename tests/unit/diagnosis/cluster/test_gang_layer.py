from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pumice.diagnosis.cluster.gang_layer import gang_cause, incomplete_gang, queue_cause
from pumice.diagnosis.cluster.objects import PodGroup
from pumice.diagnosis.cluster.reading import Cause, ClusterReading
from pumice.diagnosis.why import WhyCode
from tests.builders import a_task
from tests.unit.diagnosis.cluster.readings import (
    GPU,
    NOW,
    ago,
    claim,
    condition,
    event,
    group,
    job,
    node,
    pod,
    queue,
    reading,
    unscheduled,
)

NATIVE = "scheduling.k8s.io/v1beta1"
PENDING = group("Pending", spec={"minResources": {GPU: "8"}})
AHEAD = group("Pending", meta={"name": "big", "namespace": "other", "uid": "big", "creationTimestamp": ago(900)})


NO_PODS = "0/0 tasks in gang unschedulable: pod group is not ready, 3 minAvailable"


def held(text: str = "", **fields: Any) -> ClusterReading:
    events = (event("PodGroup", "train-8f2c1a04", "Unschedulable", text),) if text else ()
    return reading(**{"pod_groups": (PENDING,), "events": events, **fields})


def said(cause: Cause | None) -> tuple[str, str] | None:
    return None if cause is None else (cause.code.value, cause.message)


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(reading(), None, id="it is in the queue"),
        pytest.param(held(has_volcano=False), None, id="the cluster has no Volcano"),
        pytest.param(
            reading(job(scheduler_name="default-scheduler"), pod_groups=(PENDING,)), None, id="another scheduler"
        ),
        pytest.param(reading(pod_groups=()), None, id="the controller has made no PodGroup yet"),
        pytest.param(reading(pod_groups=(), queues=(), pods=(pod(),)), None, id="pods without a PodGroup"),
        pytest.param(
            reading(pod_groups=(), queues=()),
            ("Queue", "queue default does not exist, and the scheduler ignores its Jobs without a word"),
            id="no queue, no PodGroup",
        ),
        pytest.param(
            held(pod_groups=(group("", meta={"creationTimestamp": ago(5)}),)), None, id="the scheduler has not looked"
        ),
        pytest.param(held(), ("Queue", "queue default holds it and does not say why"), id="without a word"),
        pytest.param(
            held("resource in cluster is overused: overused cpu"),
            ("Queue", "queue default holds it: resource in cluster is overused: overused cpu"),
            id="overcommit",
        ),
        pytest.param(
            held(
                events=(
                    event("PodGroup", "train-8f2c1a04", "Unschedulable", NO_PODS, 1),
                    event("PodGroup", "train-8f2c1a04", "Unschedulable", "resource in cluster is overused", 2),
                )
            ),
            ("Queue", "queue default holds it: resource in cluster is overused"),
            id="overcommit, and a gang without pods",
        ),
        pytest.param(
            held("resource quota insufficient, requested: cpu=4, used: cpu=6, limited: cpu=8"),
            ("Quota", "a ResourceQuota of namespace lab has no room: cpu: 4 wanted, 2 of 8 free, 2 short"),
            id="a quota of the namespace",
        ),
        pytest.param(
            held(queues=(queue(strategy="fifo"),), waiting_groups=(PENDING, AHEAD)),
            ("Queue", "queue default starts its Jobs in order, and other/big is the first of them"),
            id="behind the head of a fifo",
        ),
        pytest.param(
            held(queues=(queue(strategy="fifo"),), waiting_groups=(PENDING,)),
            ("Queue", "queue default holds it and does not say why"),
            id="the head of a fifo",
        ),
        pytest.param(
            held(queues=(queue(strategy="fifo"),)),
            ("Queue", "queue default holds it and does not say why"),
            id="a fifo of which nothing is known",
        ),
    ],
)
def test_what_a_queue_says(situation: ClusterReading, expected: tuple[str, str] | None) -> None:
    assert said(queue_cause(situation, NOW)) == expected


def test_the_head_of_a_fifo_has_the_highest_priority() -> None:
    urgent = group("Pending", spec={"priorityClassName": "urgent"}, meta={"name": "small", "uid": "small"})
    situation = held(
        queues=(queue(strategy="fifo"),), waiting_groups=(PENDING, AHEAD, urgent), priorities={"urgent": 9}
    )
    cause = queue_cause(situation, NOW)
    assert cause is not None
    assert cause.behind == "lab/small"


def test_a_gang_that_is_larger_than_its_queue_never_fits() -> None:
    cause = queue_cause(held(queues=(queue(capability={GPU: "4"}), queue("root"))), NOW)
    assert cause is not None
    assert [hint.text for hint in cause.hints] == [
        "it never fits queue default: it wants more nvidia.com/gpu than the capability of the queue",
        "the cluster has no other open queue",
    ]


UNFIT = condition(
    "PodGroupInitiallyScheduled", "False", "Unschedulable", "minCount (4) cannot be satisfied: 2 scheduled"
)
TRIED = unscheduled("0/1 nodes are available: 1 Insufficient cpu.")


def volcano(message: str, *more: dict[str, Any], reason: str = "NotEnoughResources") -> PodGroup:
    return group("Inqueue", condition("Unschedulable", "True", reason, message), *more)


@pytest.mark.parametrize(
    ("groups", "pods", "expected"),
    [
        pytest.param((group("Running"),), (), None, id="no condition"),
        pytest.param(
            (volcano("no", condition("Scheduled", "True", "tasks in gang are ready to be scheduled", "", 10)),),
            (),
            None,
            id="scheduled since",
        ),
        pytest.param(
            (volcano("Not enough valid pods on each task for gang-scheduling", reason="NotEnoughPodsOfTask"),),
            (),
            ("Gang", "Not enough valid pods on each task for gang-scheduling"),
            id="other words",
        ),
        pytest.param(
            (volcano("2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable."),),
            (pod(), pod("worker-1", conditions=TRIED)),
            (
                "Gang",
                (
                    "none of the 2 pods that must start together fits: worker-1 waits: Unschedulable: 0/1 nodes are "
                    "available: 1 Insufficient cpu"
                ),
            ),
            id="none fits",
        ),
        pytest.param(
            (volcano("1/2 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 Running, 2 minAvailable"),),
            (),
            ("Gang", "only 1 of the 2 pods that must start together fits"),
            id="one runs",
        ),
        pytest.param(
            (
                volcano(
                    "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable. Origin reason "
                    'is train-worker-1: 0/1 nodes are unavailable: persistentvolumeclaim "data" not found.'
                ),
            ),
            (pod("worker-1"),),
            ("Volume", "PersistentVolumeClaim data does not exist"),
            id="a claim",
        ),
        pytest.param(
            (group("Pending", UNFIT, apiVersion=NATIVE),),
            (),
            ("Gang", "minCount (4) cannot be satisfied: 2 scheduled"),
            id="native",
        ),
        pytest.param(
            (group("Pending", condition("PodGroupInitiallyScheduled", "True", "", ""), apiVersion=NATIVE),),
            (),
            None,
            id="native, nothing said",
        ),
        pytest.param(
            (group("", apiVersion=NATIVE), group("Pending", UNFIT, apiVersion=NATIVE)),
            (pod(), pod("worker-1", conditions=TRIED)),
            (
                "Gang",
                (
                    "minCount (4) cannot be satisfied: 2 scheduled: worker-1 waits: Unschedulable: 0/1 nodes are "
                    "available: 1 Insufficient cpu"
                ),
            ),
            id="native, and a pod that was tried",
        ),
    ],
)
def test_what_a_gang_lacks(groups: Any, pods: Any, expected: tuple[str, str] | None) -> None:
    situation = reading(job(a_task("worker", 4)), pod_groups=groups, pods=pods, claims=(claim("other"),))
    assert said(gang_cause(situation)) == expected


def test_the_newest_true_condition_counts() -> None:
    newest = condition("Unschedulable", "True", "NotEnoughTasks", "valid: 1, min: 2", 10)
    groups = (group("Inqueue", condition("Scheduled", "True", "x", "", 60), newest),)
    assert said(gang_cause(reading(pod_groups=groups))) == ("Gang", "valid: 1, min: 2")


@pytest.mark.parametrize(
    ("fields", "pods", "waits"),
    [
        pytest.param({}, (pod(), pod("worker-1")), True, id="two of four"),
        pytest.param({}, (), False, id="none: something else keeps them from being created"),
        pytest.param({}, (pod(), pod("worker-1", spec={"nodeName": "n1"})), False, id="one has a node"),
        pytest.param({}, (pod(), pod("worker-1", conditions=TRIED)), False, id="one was tried"),
        pytest.param({"apiVersion": "scheduling.volcano.sh/v1beta1"}, (pod(),), False, id="Volcano says it itself"),
        pytest.param({}, (pod(spec={"schedulingGroup": {"podGroupName": "x"}}),), False, id="members of another group"),
        pytest.param({}, tuple(pod(f"worker-{index}") for index in range(4)), False, id="all of them"),
    ],
)
def test_a_scheduler_waits_for_the_whole_gang(fields: dict[str, Any], pods: Any, waits: bool) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    made = group("", **{"apiVersion": NATIVE, "spec": spec, **fields})
    cause = incomplete_gang(reading(job(a_task("worker", 4)), pod_groups=(made,), pods=pods))
    expected = ("Gang", "the gang needs 4 pods, and 2 exist: the scheduler waits for the others")
    assert said(cause) == (expected if waits else None)


def test_a_gang_that_fits_when_nodes_are_known_says_what_the_scheduler_says() -> None:
    situation = reading(
        job(a_task("worker", 2)),
        pods=(pod("worker-0", conditions=TRIED),),
        pod_groups=(volcano("2/2 tasks in gang unschedulable: 2 minAvailable"),),
        nodes=(node("n1"),),
    )
    cause = gang_cause(situation)
    assert cause is not None
    assert cause.code is WhyCode.GANG
    assert cause.message.endswith("fits: worker-0 waits: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu")
    assert gang_cause(replace(situation, pod_groups=())) is None
