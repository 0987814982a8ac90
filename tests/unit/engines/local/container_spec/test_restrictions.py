from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_spec.restrictions import (
    CAPABILITIES,
    dropped_capabilities,
    no_new_privileges,
    refused_restrictions,
)

ALL = tuple(CAPABILITIES.values())


@pytest.mark.parametrize(
    ("capabilities", "dropped"),
    [
        pytest.param(None, (), id="nothing"),
        pytest.param({"drop": ["NET_RAW", "CAP_KILL", "SYS_ADMIN"]}, (5, 13), id="some, by both names"),
        pytest.param({"drop": ["ALL"]}, ALL, id="all"),
        pytest.param({"drop": ["all"], "add": ["NET_BIND_SERVICE", "SYS_ADMIN"]}, tuple({*ALL} - {10}), id="all but"),
        pytest.param({"drop": ["CHOWN"], "add": ["CHOWN"]}, (), id="added wins"),
    ],
)
def test_dropped_capabilities(capabilities: dict[str, Any] | None, dropped: tuple[int, ...]) -> None:
    found = dropped_capabilities({"securityContext": {"capabilities": capabilities}})
    assert sorted(found) == sorted(dropped)
    assert dropped_capabilities({}) == ()


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
