from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.kubelet.restart_policy import LONGEST_BACK_OFF, RECOVERED_AFTER, BackOff, restarts


def rule(operator: str, *values: int) -> dict[str, Any]:
    return {"action": "Restart", "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("container", "policy", "codes"),
    [
        pytest.param({}, "Always", {0, 1, 42}, id="always"),
        pytest.param({}, "OnFailure", {1, 42}, id="on failure"),
        pytest.param({}, "Never", set(), id="never"),
        pytest.param({"restartPolicy": "OnFailure"}, "Never", {1, 42}, id="its own policy"),
        pytest.param({"restartPolicy": "Never"}, "Always", set(), id="its own policy, stricter"),
        pytest.param({"restartPolicyRules": [rule("In", 42)]}, "Never", {42}, id="a rule"),
        pytest.param({"restartPolicyRules": [rule("NotIn", 0, 1)]}, "Never", {42}, id="a rule of exceptions"),
        pytest.param(
            {"restartPolicy": "Never", "restartPolicyRules": [rule("In", 7), rule("In", 1)]}, "Always", {1}, id="rules"
        ),
    ],
)
def test_which_containers_restart(container: dict[str, Any], policy: str, codes: set[int]) -> None:
    assert {code for code in (0, 1, 42) if restarts(container, policy, code)} == codes


def test_waits_double_up_to_the_longest() -> None:
    back_off = BackOff()
    waits = [back_off.after(ran=0) for _ in range(11)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_BACK_OFF, LONGEST_BACK_OFF]


def test_a_recovered_container_starts_from_the_shortest_delay() -> None:
    back_off = BackOff()
    assert [back_off.after(ran) for ran in (0, 0, RECOVERED_AFTER, 0)] == [1, 2, 1, 2]
