from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import container, hints, in_container, pod, rules

SIDECAR = {"restartPolicy": "Always"}
PROBE = {"exec": {"command": ["true"]}}
LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
RESIZE = "spec.containers[0].resizePolicy"
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod(), id="plain"),
        pytest.param(in_container(imagePullPolicy="", terminationMessagePolicy=""), id="empty texts are unset"),
        pytest.param(in_container(imagePullPolicy="IfNotPresent", terminationMessagePolicy="File"), id="enums"),
        pytest.param(pod(initContainers=[container(name="a")]), id="init container"),
        pytest.param(
            pod(initContainers=[container(name="a", **SIDECAR, livenessProbe=PROBE, lifecycle={"preStop": PROBE})]),
            id="a sidecar has probes and hooks",
        ),
        pytest.param(in_container(restartPolicy="Never", restartPolicyRules=[RULE]), id="restart rules"),
        pytest.param(
            pod(initContainers=[container(name="a", restartPolicy="OnFailure")]), id="an init container's own"
        ),
        pytest.param(
            in_container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            id="resize policy",
        ),
        pytest.param(
            pod(
                initContainers=[
                    container(name="a", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}])
                ]
            ),
            id="resize policy of an init container",
        ),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": []}, ["spec.containers: must have at least one container"], id="no container"),
        pytest.param(
            {"containers": [{}]},
            ["spec.containers[0].name: is required", "spec.containers[0].image: is required"],
            id="empty container",
        ),
        pytest.param(in_container(name="Main"), [f"spec.containers[0].name: {LABEL}"], id="name"),
        pytest.param(
            pod(containers=[container(), container()]),
            ["spec.containers[1].name: the name of a container is already used at spec.containers[0].name"],
            id="two of one name",
        ),
        pytest.param(
            pod(initContainers=[container()]),
            ["spec.initContainers[0].name: the name of a container is already used at spec.containers[0].name"],
            id="an init container of the same name",
        ),
        pytest.param(
            in_container(image=" busybox"),
            ["spec.containers[0].image: must not begin or end with white space"],
            id="white space before the image",
        ),
        pytest.param(
            in_container(imagePullPolicy="Often"),
            ["spec.containers[0].imagePullPolicy: must be Always, IfNotPresent or Never"],
            id="pull policy",
        ),
        pytest.param(
            in_container(terminationMessagePolicy="Log"),
            ["spec.containers[0].terminationMessagePolicy: must be File or FallbackToLogsOnError"],
            id="message policy",
        ),
        pytest.param(
            in_container(restartPolicy=""),
            ["spec.containers[0].restartPolicy: must be Always, OnFailure or Never"],
            id="an empty restart policy is not unset",
        ),
        pytest.param(
            in_container(restartPolicyRules=[RULE]),
            ["spec.containers[0].restartPolicy: is required with restartPolicyRules"],
            id="rules without a policy",
        ),
        pytest.param(
            in_container(restartPolicy="Never", restartPolicyRules=[RULE] * 21),
            ["spec.containers[0].restartPolicyRules: must be at most 20 rules"],
            id="too many rules",
        ),
        pytest.param(
            in_container(restartPolicy="Never", restartPolicyRules=[{"action": "Stop"}]),
            [
                "spec.containers[0].restartPolicyRules[0].action: must be Restart or RestartAllContainers",
                "spec.containers[0].restartPolicyRules[0].exitCodes: is required",
            ],
            id="a rule that says nothing",
        ),
        pytest.param(
            in_container(
                restartPolicy="Never", restartPolicyRules=[{"action": "Restart", "exitCodes": {"values": [1] * 256}}]
            ),
            [
                "spec.containers[0].restartPolicyRules[0].exitCodes.operator: is required: In or NotIn",
                "spec.containers[0].restartPolicyRules[0].exitCodes.values: must be at most 255 exit codes",
            ],
            id="exit codes",
        ),
        pytest.param(
            in_container(
                resizePolicy=[{"resourceName": "gpu"}, {"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2
            ),
            [
                "spec.containers[0].resizePolicy[0].resourceName: must be cpu or memory",
                "spec.containers[0].resizePolicy[0].restartPolicy: is required: NotRequired or RestartContainer",
                "spec.containers[0].resizePolicy[2].resourceName: must be cpu or memory",
                f"{RESIZE}[2].resourceName: this resource is already used at {RESIZE}[0].resourceName",
                "spec.containers[0].resizePolicy[2].restartPolicy: is required: NotRequired or RestartContainer",
                f"{RESIZE}[3].resourceName: this resource is already used at {RESIZE}[1].resourceName",
            ],
            id="resize policies",
        ),
        pytest.param(
            in_container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
            | {"restartPolicy": "Never"},
            [f"{RESIZE}[0].restartPolicy: must be NotRequired, because the pod's restartPolicy is Never"],
            id="a resize that restarts in a pod that does not",
        ),
        pytest.param(
            pod(
                initContainers=[
                    container(name="a", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
                ]
            ),
            ["spec.initContainers[0].resizePolicy[0].restartPolicy: must be NotRequired for an init container"],
            id="a resize that restarts an init container",
        ),
        pytest.param(
            pod(initContainers=[container(name="a", readinessProbe=PROBE, lifecycle={})]),
            [
                f"spec.initContainers[0].{key}: is only for containers that keep running, not for init containers"
                for key in ("lifecycle", "readinessProbe")
            ],
            id="probe and hook of an init container",
        ),
        pytest.param(
            in_container(volumeDevices=[{"name": "p", "devicePath": "/dev/x"}])
            | {"hostUsers": False, "volumes": [{"name": "p", "persistentVolumeClaim": {"claimName": "c"}}]},
            ["spec.containers[0].volumeDevices: cannot be used when hostUsers is false"],
            id="devices without the node's users",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(in_container(name="Main_1"), ["did you mean main-1?"], id="a name that is easily mended"),
        pytest.param(in_container(name="-"), [""], id="a name that is not"),
        pytest.param(in_container(name=" "), [""], id="a name of which nothing is left"),
        pytest.param(in_container(imagePullPolicy="always"), ["did you mean Always?"], id="case of a word"),
        pytest.param(in_container(imagePullPolicy="IfNotPresnet"), ["did you mean IfNotPresent?"], id="typo in a word"),
    ],
)
def test_hints(spec: dict[str, object], expected: list[str]) -> None:
    assert hints(spec) == expected
