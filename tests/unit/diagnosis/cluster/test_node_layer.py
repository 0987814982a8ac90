from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.cluster.node_layer import container_cause, lost_node_cause, readiness_cause
from pumice.diagnosis.pod_ends import CODE_CONTAINER, NOT_UNPACKED, READ_ONLY_CODE
from tests.builders import a_task
from tests.unit.diagnosis.cluster.readings import NOW, ago, condition, container, event, job, node, pod, reading


@pytest.mark.parametrize(
    ("reason", "message", "code", "evidence", "hint"),
    [
        pytest.param(
            "ErrImagePull",
            "rpc error: denied",
            "Image",
            ["ErrImagePull: rpc error: denied; image example.com/image:1"],
            "check its name and tag; a private registry needs imagePullSecrets",
            id="image",
        ),
        pytest.param(
            "InvalidImageName",
            'Failed to apply default image tag "x:::1": invalid',
            "Image",
            ['InvalidImageName: Failed to apply default image tag "x:::1": invalid; image example.com/image:1'],
            "write the image as registry/name:tag",
            id="invalid name",
        ),
        pytest.param(
            "CreateContainerConfigError",
            'secret "hub" not found',
            "Node",
            ['CreateContainerConfigError: secret "hub" not found', "not found in lab"],
            "to create it: kubectl create secret generic hub -n lab --from-literal=KEY=VALUE",
            id="missing Secret",
        ),
        pytest.param(
            "CreateContainerConfigError",
            'secret "pumice-env-01234567" not found',
            "Node",
            ['CreateContainerConfigError: secret "pumice-env-01234567" not found', "not found in lab"],
            "the command that submitted it ended before it sent the values of --env; submit it again after: "
            "pumice rm train --force --on prod -n lab",
            id="Secret of a client that was killed",
        ),
        pytest.param(
            "CreateContainerConfigError",
            'configmap "hub" not found',
            "Node",
            ['CreateContainerConfigError: configmap "hub" not found', "not found in lab"],
            "to create it: kubectl create configmap hub -n lab --from-literal=KEY=VALUE",
            id="missing ConfigMap",
        ),
        pytest.param(
            "CreateContainerConfigError",
            "couldn't find key a.yaml in ConfigMap lab/hub",
            "Node",
            ["CreateContainerConfigError: couldn't find key a.yaml in ConfigMap lab/hub", "not found"],
            "add key a.yaml to ConfigMap hub, or correct the key in the pod template",
            id="missing key of a ConfigMap",
        ),
        pytest.param(
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
            "Node",
            ["CreateContainerConfigError: container has runAsNonRoot and image will run as root"],
            "",
            id="other configuration",
        ),
        pytest.param(
            "RunContainerError", "exec failed", "Node", ["RunContainerError: exec failed"], "", id="any other reason"
        ),
        pytest.param(
            "CrashLoopBackOff",
            "back-off 10s",
            "Failed",
            ["CrashLoopBackOff: back-off 10s"],
            "its last lines: pumice logs train/worker-0 --tail 30 --on prod -n lab",
            id="crash loop of which the last end is unknown",
        ),
    ],
)
def test_a_container_that_does_not_run(reason: str, message: str, code: str, evidence: list[str], hint: str) -> None:
    waits = pod(containerStatuses=container(reason, message))
    cause = container_cause(reading(job(a_task()), pods=(pod("worker-1"), waits)))
    assert cause is not None
    assert (cause.code.value, cause.message) == (code, f"worker-0 waits: {reason}: {message}")
    assert [line.text for line in cause.evidence] == evidence
    hints = [f"{each.text}: {each.command}" if each.command else each.text for each in cause.hints]
    assert hints == ([hint] if hint else [])


def test_a_crash_without_a_last_line() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ago(9)}}
    waits = pod(containerStatuses=container("CrashLoopBackOff", "", lastState=ended, restartCount=2))
    cause = container_cause(reading(pods=(waits,)))
    assert cause is not None
    assert cause.evidence[0].text == "signal 9 (SIGKILL), OOMKilled; 2 restarts"


@pytest.mark.parametrize(
    ("message", "last"),
    [
        pytest.param("exec: sh: executable file not found in $PATH", {}, id="no sh"),
        pytest.param("", {"terminated": {"exitCode": 64, "finishedAt": ago(9)}}, id="no tar"),
    ],
)
def test_an_image_that_cannot_unpack_the_code_needs_another_option(message: str, last: dict[str, Any]) -> None:
    [status] = container("RunContainerError", message, lastState=last)
    waits = pod(
        spec={"initContainers": [{"name": CODE_CONTAINER}]}, initContainerStatuses=[{**status, "name": CODE_CONTAINER}]
    )
    cause = container_cause(reading(pods=(waits,)))
    assert cause is not None
    assert [each.text for each in cause.hints] == [f"{NOT_UNPACKED}: {READ_ONLY_CODE}"]


def test_containers_that_start_are_no_cause() -> None:
    pods = (pod(), pod("worker-1", "Running", containerStatuses=container(ready=True)))
    assert container_cause(reading(pods=pods)) is None
    assert readiness_cause(reading(pods=pods)) is None
    assert lost_node_cause(reading(pods=pods), NOW) is None


def lost(**fields: Any) -> Any:
    return pod(
        phase="Running",
        spec={"nodeName": "n1"},
        conditions=[{"type": "Ready", "status": "False"}],
        containerStatuses=container(ready=True),
        **fields,
    )


@pytest.mark.parametrize(
    ("nodes", "evidence"),
    [
        pytest.param((), ["Pod train-worker-0: n1"], id="no nodes"),
        pytest.param((node("n2"),), ["Node n1: not found", "Pod train-worker-0: n1"], id="the node was deleted"),
        pytest.param((node("n1"),), ["Pod train-worker-0: n1"], id="no condition"),
        pytest.param(
            (node("n1", conditions=[condition("Ready", "Unknown", "", "")]),),
            ["Node n1: Unknown", "Pod train-worker-0: n1"],
            id="no words",
        ),
    ],
)
def test_what_is_known_of_a_lost_node(nodes: Any, evidence: list[str]) -> None:
    cause = lost_node_cause(reading(pods=(lost(),), nodes=nodes), NOW)
    assert cause is not None
    assert [f"{line.kind} {line.name}: {line.text}" for line in cause.evidence] == evidence


@pytest.mark.parametrize(
    ("conditions", "message", "text"),
    [
        pytest.param([], "worker-0 runs and is not ready", "False", id="no condition"),
        pytest.param(
            [condition("Ready", "False", "ContainersNotReady", "containers with unready status: [main]")],
            "worker-0 runs and is not ready: ContainersNotReady: containers with unready status: [main]",
            "ContainersNotReady: containers with unready status: [main]",
            id="without an event",
        ),
    ],
)
def test_a_pod_that_is_not_ready(conditions: Any, message: str, text: str) -> None:
    unready = pod(phase="Running", conditions=conditions, containerStatuses=container())
    cause = readiness_cause(reading(pods=(unready,)))
    assert cause is not None
    assert (cause.message, cause.evidence[0].text) == (message, text)


def test_the_events_of_a_pod_of_the_same_name_do_not_count() -> None:
    other = {"kind": "Pod", "name": "train-worker-0", "uid": "another"}
    events = (event("Pod", "train-worker-0", "FailedCreatePodSandBox", "no network", involvedObject=other),)
    assert container_cause(reading(pods=(pod(),), events=events)) is None
