from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.unsupported_fields import MOOT, TOLD, unsupported_fields
from pumice.runtime.kubernetes_types import kubernetes_types

# What the engine does something about. A field of a newer Kubernetes has to be put here or into the tables.
HONOURED = {
    "PodSpec": {
        "activeDeadlineSeconds",
        "containers",
        "dnsConfig",
        "hostAliases",
        "hostname",
        "hostnameOverride",
        "initContainers",
        "overhead",
        "resources",
        "restartPolicy",
        "securityContext",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "volumes",
    },
    "PodSecurityContext": {"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "supplementalGroups"},
    "Container": {
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "terminationMessagePath",
        "volumeMounts",
        "workingDir",
    },
    "SecurityContext": {"readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser"},
    "VolumeMount": {"mountPath", "name", "readOnly", "subPath", "subPathExpr"},
    "ContainerPort": {"containerPort"},
}


@pytest.mark.parametrize("kind", HONOURED)
def test_every_field_is_honoured_or_explained(kind: str) -> None:
    explained = [field.partition(".")[0] for field in (*TOLD[kind], *MOOT[kind])]
    fields = set(kubernetes_types().types[kind].fields)
    assert fields == HONOURED[kind] | set(explained)
    assert not HONOURED[kind] & set(explained)
    assert not TOLD[kind].keys() & MOOT[kind].keys()


def test_both_kinds_of_capabilities_are_explained() -> None:
    assert set(kubernetes_types().types["Capabilities"].fields) == {"add", "drop"}
    assert "capabilities.add" in TOLD["SecurityContext"]
    assert "capabilities.drop" in MOOT["SecurityContext"]


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **(container or {})}], **spec}}


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(pod(), [], id="a plain pod"),
        pytest.param(pod(hostNetwork=False, tolerations=[{"key": "x"}], schedulerName="volcano"), [], id="moot"),
        pytest.param(pod(hostNetwork=True), ["hostNetwork: the pod has its own network and address"], id="pod"),
        pytest.param(
            pod(securityContext={"fsGroup": 7, "sysctls": [{"name": "a", "value": "1"}]}),
            ["securityContext.sysctls: the kernel's values stay as they are"],
            id="security of the pod",
        ),
        pytest.param(
            pod({"tty": True, "imagePullPolicy": "Always"}),
            ["container c: tty: the output goes to a log, not to a terminal"],
            id="container",
        ),
        pytest.param(
            pod({"securityContext": {"privileged": True, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}}),
            [
                "container c: securityContext.capabilities.add: no capability beyond the usual ones is granted",
                "container c: securityContext.privileged: no container gets power over the machine",
            ],
            id="security of the container",
        ),
        pytest.param(
            pod(
                {
                    "securityContext": {
                        "seccompProfile": {"type": "RuntimeDefault"},
                        "appArmorProfile": {"type": "Unconfined"},
                        "capabilities": {"add": []},
                        "procMount": "Default",
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "volumeMounts": [{"name": "v", "mountPropagation": "None"}],
                }
            ),
            [],
            id="what is the case anyway",
        ),
        pytest.param(
            pod({"livenessProbe": {"grpc": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}}}),
            ["container c: livenessProbe.grpc: only whether the port is open is asked"],
            id="probe",
        ),
        pytest.param(
            pod({"ports": [{"containerPort": 80, "hostPort": 8080}]}),
            ["container c: ports: 80: hostPort: no port of the machine is opened; use --publish"],
            id="port",
        ),
        pytest.param(
            pod({"volumeMounts": [{"name": "v", "mountPropagation": "Bidirectional"}]}),
            ["container c: volumeMounts: v: mountPropagation: mounts made on one side do not appear on the other"],
            id="mount",
        ),
        pytest.param(
            pod({"stdin": True}, initContainers=[{"name": "i", "stdin": True}]),
            [
                "container i: stdin: the container reads from an empty input",
                "container c: stdin: the container reads from an empty input",
            ],
            id="init containers too",
        ),
    ],
)
def test_unsupported_fields(manifest: dict[str, Any], told: list[str]) -> None:
    assert unsupported_fields(manifest) == told
