from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.cluster.reading import Cause, ClusterReading, requests_by_node
from pumice.diagnosis.cluster.scheduler_layer import scheduler_cause
from tests.builders import a_container, a_task, a_template
from tests.unit.diagnosis.cluster.readings import GPU, NOW, event, job, needs, node, pod, reading, unscheduled

TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
TEXT = "0/3 nodes are available: 3 of them no."
SAID = "worker-0 waits: Unschedulable: 0/3 nodes are available: 3 of them no"
SELECTS = a_template(a_container(), nodeSelector={"zone": "a", "disk": "b"})


def asked(*nodes: Any, template: Any = None, task: str = "worker", **fields: Any) -> Cause:
    made = template or a_template()
    waits = pod(f"{task}-0", spec=made["spec"], conditions=unscheduled(TEXT))
    cause = scheduler_cause(reading(job(a_task("worker", 1, made)), pods=(waits,), nodes=nodes, **fields), NOW)
    assert cause is not None
    return cause


@pytest.mark.parametrize(
    ("cause", "message", "hints"),
    [
        pytest.param(asked(), SAID, [], id="no node is known"),
        pytest.param(asked(node("n1")), SAID, [], id="other rules than room"),
        pytest.param(
            asked(node("n1", TAINT), task="other"),
            "the only node has taints that other-0 does not tolerate: team=vision:NoSchedule",
            ["a toleration of team=vision:NoSchedule in spec.tolerations opens 1 node"],
            id="a task that the Job does not have",
        ),
        pytest.param(asked(node("n1", unschedulable=True)), "the only node is cordoned", [], id="one cordoned node"),
        pytest.param(
            asked(node("n1", unschedulable=True), node("n2", unschedulable=True)),
            "all 2 nodes are cordoned",
            [],
            id="cordoned",
        ),
        pytest.param(
            asked(
                node("n1", TAINT, labels={"zone": "a", "disk": "b"}),
                node("n2", labels={"zone": "a"}),
                node("n3", labels={"zone": "a", "disk": "b"}, unschedulable=True),
                template=SELECTS,
            ),
            "all 3 nodes are closed to worker-0: 1 by taints, 1 by what it selects, 1 because they are cordoned",
            ["a toleration of team=vision:NoSchedule in spec.tasks[0].template.spec.tolerations opens 1 node"],
            id="each for another reason",
        ),
        pytest.param(
            asked(node("n1", TAINT, labels={"zone": "b"}), template=SELECTS),
            "no node has what worker-0 selects: zone=a, disk=b",
            [
                "nodes have zone=b; spec.tasks[0].template.spec.nodeSelector wants zone=a",
                "nodes have no label disk; spec.tasks[0].template.spec.nodeSelector wants disk=b",
            ],
            id="a label that no node has",
        ),
        pytest.param(
            asked(
                node("n1"),
                node("n2", TAINT),
                template=needs(gpu="4", cpu="4"),
                usage=requests_by_node([("n1", needs(gpu="6")["spec"])]),
            ),
            "no node has room for worker-0: nvidia.com/gpu: 4 wanted, 2 of 8 free, 2 short on node n1",
            ["at most this fits n1 now: nvidia.com/gpu: 2"],
            id="the only open node is short",
        ),
    ],
)
def test_why_no_node_takes_a_pod(cause: Cause, message: str, hints: list[str]) -> None:
    assert cause.code.value == "Scheduler"
    assert cause.message == message
    assert [hint.text for hint in cause.hints] == hints


def situation(*pods: Any, **fields: Any) -> ClusterReading:
    return reading(job(a_task("worker", 3)), pods=pods, **fields)


def test_pods_that_wait_for_something_else_have_a_node() -> None:
    assert scheduler_cause(situation(pod(), pod("worker-1", "Running")), NOW) is None


def test_of_a_gang_the_pod_that_was_tried_counts() -> None:
    pods = (
        pod(conditions=unscheduled("pod group is unschedulable")),
        pod("worker-1", conditions=unscheduled(TEXT)),
    )
    cause = scheduler_cause(situation(*pods), NOW)
    assert cause is not None
    assert cause.evidence[0].name == "train-worker-1"
    cause = scheduler_cause(situation(pods[0]), NOW)
    assert cause is not None
    assert cause.message == "worker-0 waits: Unschedulable: pod group is unschedulable"


def test_gates_without_names() -> None:
    cause = scheduler_cause(situation(pod(conditions=unscheduled("", "SchedulingGated"))), NOW)
    assert cause is not None
    assert cause.message == "worker-0 waits for its scheduling gates to open: unknown gates"


@pytest.mark.parametrize(
    ("reason", "seconds", "code"),
    [
        pytest.param("Nominated", 60, "Autoscaler", id="karpenter"),
        pytest.param("TriggeredScaleUp", 899, "Autoscaler", id="14:59 ago"),
        pytest.param("TriggeredScaleUp", 901, "Scheduler", id="15:01 ago"),
        pytest.param("NotTriggerScaleUp", 60, "Scheduler", id="it cannot help"),
        pytest.param("Other", 60, "Scheduler", id="another event"),
    ],
)
def test_what_the_autoscaler_does(reason: str, seconds: int, code: str) -> None:
    events = (event("Pod", "train-worker-0", reason, "text", seconds),)
    assert asked(node("n1", allocatable={GPU: "0"}), events=events).code.value == code
