from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.restrictions import UNSUPPORTED, unsupported_fields
from pumice.runtime.kubernetes_types import kubernetes_types

# The fields that the engine supports. A field of a newer Kubernetes belongs here, below, or in UNSUPPORTED.
SUPPORTED = {
    "PodSpec": """activeDeadlineSeconds containers dnsConfig hostAliases hostname hostnameOverride initContainers
        overhead resources restartPolicy securityContext setHostnameAsFQDN shareProcessNamespace subdomain
        terminationGracePeriodSeconds volumes""",
    "PodSecurityContext": "fsGroup runAsGroup runAsNonRoot runAsUser supplementalGroups",
    "Container": """args command env envFrom image lifecycle livenessProbe name ports readinessProbe resources
        restartPolicy restartPolicyRules securityContext startupProbe terminationMessagePath volumeMounts workingDir""",
    "SecurityContext": "allowPrivilegeEscalation readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser",
    "VolumeMount": "mountPath name readOnly subPath subPathExpr",
    "ContainerPort": "containerPort",
}
# Fields that make no difference on one machine: it has one node, no API server, no registry and no preemption.
WITHOUT_EFFECT = {
    "PodSpec": """affinity automountServiceAccountToken dnsPolicy evictionResponders hostUsers imagePullSecrets nodeName
        nodeSelector os preemptionPolicy priority priorityClassName schedulerName schedulingGroup serviceAccount
        serviceAccountName tolerations topologySpreadConstraints""",
    "PodSecurityContext": "fsGroupChangePolicy seLinuxChangePolicy supplementalGroupsPolicy",
    "Container": "imagePullPolicy stdinOnce terminationMessagePolicy",
    "SecurityContext": "",
    "VolumeMount": "recursiveReadOnly",
    "ContainerPort": "hostIP name protocol",
}


@pytest.mark.parametrize("kind", SUPPORTED)
def test_every_field_is_supported_or_known_to_have_no_effect(kind: str) -> None:
    supported, without_effect = set(SUPPORTED[kind].split()), set(WITHOUT_EFFECT[kind].split())
    ignored = {field.partition(".")[0] for field in (*UNSUPPORTED[kind], *without_effect)}
    assert set(kubernetes_types().types[kind].fields) == supported | ignored
    assert not supported & ignored
    assert not UNSUPPORTED[kind].keys() & without_effect


def test_both_kinds_of_capabilities_are_listed() -> None:
    assert set(kubernetes_types().types["Capabilities"].fields) == {"add", "drop"}
    assert "capabilities.add" in UNSUPPORTED["SecurityContext"]


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", **(container or {})}], **spec}}


@pytest.mark.parametrize(
    ("manifest", "warnings"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(pod(), [], id="a plain pod"),
        pytest.param(
            pod(hostNetwork=False, tolerations=[{"key": "x"}], schedulerName="volcano"), [], id="without effect"
        ),
        pytest.param(pod(hostNetwork=True), ["hostNetwork: the pod has its own network and address"], id="pod"),
        pytest.param(
            pod(securityContext={"fsGroup": 7, "sysctls": [{"name": "a", "value": "1"}]}),
            ["securityContext.sysctls: the kernel's values are not changed"],
            id="securityContext of the pod",
        ),
        pytest.param(
            pod({"tty": True, "imagePullPolicy": "Always"}),
            ["container c: tty: the output goes to a log, not to a terminal"],
            id="container",
        ),
        pytest.param(
            pod({"securityContext": {"privileged": True, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}}),
            [
                "container c: securityContext.capabilities.add: beyond the default ones only NET_RAW is granted",
                "container c: securityContext.privileged: containers get no privileges on the machine",
            ],
            id="securityContext of the container",
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
            id="values that describe the default",
        ),
        pytest.param(
            pod({"securityContext": {"capabilities": {"add": ["CAP_NET_RAW", "CHOWN"]}}}), [], id="granted capabilities"
        ),
        pytest.param(
            pod({"securityContext": {"capabilities": {"add": ["ALL"]}}}),
            ["container c: securityContext.capabilities.add: beyond the default ones only NET_RAW is granted"],
            id="all capabilities",
        ),
        pytest.param(
            pod({"livenessProbe": {"grpc": {"port": 1}}, "readinessProbe": {"tcpSocket": {"port": 1}}}),
            ["container c: livenessProbe.grpc: only checks whether the port is open"],
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
                "container i: stdin: the container reads an empty input",
                "container c: stdin: the container reads an empty input",
            ],
            id="init containers too",
        ),
    ],
)
def test_unsupported_fields(manifest: dict[str, Any], warnings: list[str]) -> None:
    assert unsupported_fields(manifest) == warnings
