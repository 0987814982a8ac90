from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.restrictions import (
    granted_capabilities,
    no_new_privileges,
    refused_restrictions,
)

KILL, NET_BIND_SERVICE, NET_RAW = 5, 10, 13
DEFAULT = {0, 1, 3, 4, KILL, 6, 7, 8, NET_BIND_SERVICE, 18, 29, 31}


@pytest.mark.parametrize(
    ("capabilities", "granted"),
    [
        pytest.param(None, DEFAULT, id="nothing"),
        pytest.param({"drop": ["NET_RAW", "CAP_KILL", "SYS_ADMIN"]}, DEFAULT - {KILL}, id="some, by both names"),
        pytest.param({"drop": ["ALL"]}, set(), id="all"),
        pytest.param({"drop": ["all"], "add": ["NET_BIND_SERVICE", "SYS_ADMIN"]}, {NET_BIND_SERVICE}, id="all but"),
        pytest.param({"drop": ["CHOWN"], "add": ["CHOWN"]}, DEFAULT, id="added wins"),
        pytest.param({"add": ["NET_RAW"]}, DEFAULT | {NET_RAW}, id="NET_RAW"),
        pytest.param({"add": ["cap_net_raw"]}, DEFAULT | {NET_RAW}, id="NET_RAW by its other name"),
        pytest.param({"add": ["ALL"]}, DEFAULT | {NET_RAW}, id="all are added"),
        pytest.param({"add": ["ALL"], "drop": ["NET_RAW", "KILL"]}, DEFAULT - {KILL}, id="all but some are added"),
        pytest.param({"add": ["ALL"], "drop": ["ALL"]}, set(), id="all are added and dropped"),
        pytest.param({"add": ["NET_RAW"], "drop": ["ALL"]}, {NET_RAW}, id="only NET_RAW"),
    ],
)
def test_granted_capabilities(capabilities: dict[str, Any] | None, granted: set[int]) -> None:
    assert set(granted_capabilities({"securityContext": {"capabilities": capabilities}})) == granted
    assert set(granted_capabilities({})) == DEFAULT


def test_no_new_privileges() -> None:
    assert no_new_privileges({"securityContext": {"allowPrivilegeEscalation": False}})
    assert not no_new_privileges({"securityContext": {"allowPrivilegeEscalation": True}})
    assert not no_new_privileges({})


@pytest.mark.parametrize(
    ("pod", "container", "refused"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"seccompProfile": {"type": "RuntimeDefault"}}, {}, [], id="the default"),
        pytest.param(
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}, {}, ["seccompProfile"], id="pod"
        ),
        pytest.param(
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}},
            {"seccompProfile": {"type": "RuntimeDefault"}},
            [],
            id="the container's wins",
        ),
        pytest.param({}, {"appArmorProfile": {"type": "Localhost"}}, ["appArmorProfile"], id="container"),
    ],
)
def test_refused_restrictions(pod: dict[str, Any], container: dict[str, Any], refused: list[str]) -> None:
    found = refused_restrictions({"spec": {"securityContext": pod}}, {"securityContext": container})
    assert [problem.message.split(":")[0].removeprefix("securityContext.") for problem in found] == refused
