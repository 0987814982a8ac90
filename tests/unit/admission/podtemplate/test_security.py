from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import in_container, pod, rules

ID = "must be from 0 to 2147483647"
SYSCTL = "must be lower-case words with '.' or '/' between them, such as net.core.somaxconn"


def pod_context(context: dict[str, object], **spec: object) -> dict[str, object]:
    return pod(securityContext=context, **spec)


def context(**fields: object) -> dict[str, object]:
    return in_container(securityContext=fields)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod_context({"runAsUser": 0, "runAsGroup": 2**31 - 1, "supplementalGroups": [0]}), id="ids"),
        pytest.param(
            pod_context(
                {
                    "fsGroupChangePolicy": "Always",
                    "supplementalGroupsPolicy": "Strict",
                    "seLinuxChangePolicy": "Recursive",
                    "seccompProfile": {"type": "Unconfined"},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": "x"},
                }
            ),
            id="words",
        ),
        pytest.param(
            pod_context({"sysctls": [{"name": "net/core/x", "value": "1"}, {"name": "kernel.shm", "value": "1"}]}),
            id="sysctls",
        ),
        pytest.param(
            pod_context({"sysctls": [{"name": "kernel.domainname"}]}, hostNetwork=True, hostIPC=True),
            id="other sysctls",
        ),
        pytest.param(context(privileged=True, runAsUser=1, procMount="Default"), id="privileged"),
        pytest.param(context(allowPrivilegeEscalation=False, capabilities={"add": ["NET_ADMIN"]}), id="no escalation"),
        pytest.param(context(procMount="Unmasked") | {"hostUsers": False}, id="unmasked, with users of its own"),
        pytest.param(context(seccompProfile={"type": "Localhost", "localhostProfile": "a/b"}), id="profile"),
        pytest.param(context(runAsNonRoot=True, runAsUser=0), id="a contradiction that only the kubelet sees"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod_context({"runAsUser": -1, "runAsGroup": 2**31, "fsGroup": -1, "supplementalGroups": [0, -1]}),
            [f"fsGroup: {ID}", f"runAsUser: {ID}", f"runAsGroup: {ID}", f"supplementalGroups[1]: {ID}"],
            id="ids",
        ),
        pytest.param(
            pod_context({"fsGroupChangePolicy": "", "supplementalGroupsPolicy": "x", "seLinuxChangePolicy": "x"}),
            [
                "fsGroupChangePolicy: must be OnRootMismatch or Always",
                "supplementalGroupsPolicy: must be Merge or Strict",
                "seLinuxChangePolicy: must be MountOption or Recursive",
            ],
            id="words",
        ),
        pytest.param(
            pod_context({"sysctls": [{}, {"name": "A"}, {"name": "a." * 126 + "aa"}, {"name": "b"}, {"name": "b"}]}),
            [
                "sysctls[0].name: is required",
                f"sysctls[1].name: {SYSCTL}",
                "sysctls[2].name: must be at most 253 characters, this has 254",
                "sysctls[4].name: this sysctl is already used at spec.securityContext.sysctls[3].name",
            ],
            id="sysctls",
        ),
        pytest.param(
            pod_context(
                {"sysctls": [{"name": "net.a"}, {"name": "kernel/sem"}, {"name": "fs.mqueue.a"}]},
                hostNetwork=True,
                hostIPC=True,
            ),
            [
                "sysctls[0].name: cannot be set when hostNetwork is true",
                "sysctls[1].name: cannot be set when hostIPC is true",
                "sysctls[2].name: cannot be set when hostIPC is true",
            ],
            id="sysctls of the node",
        ),
        pytest.param(
            pod_context({"seccompProfile": {}, "appArmorProfile": {"type": "Default"}}),
            [
                "seccompProfile.type: is required: RuntimeDefault, Localhost or Unconfined",
                "appArmorProfile.type: must be RuntimeDefault, Localhost or Unconfined",
            ],
            id="profiles",
        ),
        pytest.param(
            pod_context({"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "Localhost"}}),
            [
                "seccompProfile.localhostProfile: is required for the type Localhost",
                "appArmorProfile.localhostProfile: is required for the type Localhost",
            ],
            id="profiles of the node, unnamed",
        ),
        pytest.param(
            pod_context(
                {
                    "seccompProfile": {"type": "Localhost", "localhostProfile": "/a/.."},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": " a"},
                }
            ),
            [
                "seccompProfile.localhostProfile: must be a relative path",
                "seccompProfile.localhostProfile: must not contain '..'",
                "appArmorProfile.localhostProfile: must not begin or end with white space",
            ],
            id="profiles of the node, badly named",
        ),
        pytest.param(
            pod_context(
                {
                    "seccompProfile": {"type": "Unconfined", "localhostProfile": "a"},
                    "appArmorProfile": {"type": "Localhost", "localhostProfile": ""},
                }
            ),
            [
                "seccompProfile.localhostProfile: can only be set for the type Localhost",
                "appArmorProfile.localhostProfile: is required for the type Localhost",
            ],
            id="profile where there is none",
        ),
        pytest.param(
            pod_context({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}}),
            ["appArmorProfile.localhostProfile: must be at most 4095 characters, this has 4096"],
            id="long profile",
        ),
    ],
)
def test_pods(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.securityContext.{text}" for text in expected]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(context(runAsUser=-1, runAsGroup=-1), [f"runAsUser: {ID}", f"runAsGroup: {ID}"], id="ids"),
        pytest.param(context(procMount=""), ["procMount: must be Default or Unmasked"], id="proc"),
        pytest.param(
            context(procMount="Unmasked"), ["procMount: Unmasked needs hostUsers: false in the pod"], id="unmasked"
        ),
        pytest.param(
            context(allowPrivilegeEscalation=False, privileged=True, capabilities={"add": ["CAP_SYS_ADMIN"]}),
            [
                "allowPrivilegeEscalation: cannot be false in a privileged container",
                "allowPrivilegeEscalation: cannot be false with the capability CAP_SYS_ADMIN",
            ],
            id="escalation",
        ),
        pytest.param(
            context(seccompProfile={"type": "x"}),
            ["seccompProfile.type: must be RuntimeDefault, Localhost or Unconfined"],
            id="profile",
        ),
    ],
)
def test_containers(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].securityContext.{text}" for text in expected]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod(os={"name": "linux"}), id="linux"),
        # What is wrong in these, only the API server says.
        pytest.param(pod(os={"name": "windows"}, hostPID=True, securityContext={"fsGroup": 1}), id="windows"),
        pytest.param(pod(securityContext={"windowsOptions": {"gmsaCredentialSpecName": "A"}}), id="credentials"),
    ],
)
def test_systems_are_fine(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod(os={}), ["os.name: is required: linux or windows"], id="no name"),
        pytest.param(pod(os={"name": "darwin"}), ["os.name: must be linux or windows"], id="other systems"),
    ],
)
def test_systems(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.{text}" for text in expected]
