from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.install.checks.check_result import State
from pumice.engines.kubernetes.install.checks.cluster_checks import gang, serves_jobs


def deployment(*args: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"args": list(args)}]}}, **spec}}


@pytest.mark.parametrize(
    ("volcano", "expected"),
    [
        pytest.param(deployment("--leader-elect=false"), True, id="as it is installed"),
        pytest.param(deployment("--controllers=*,-sharding-controller"), True, id="all but another"),
        pytest.param(deployment("--controllers=*,-job-controller"), False, id="all but ours"),
        pytest.param(deployment("--controllers", "*,-job-controller"), False, id="in two words"),
        pytest.param(deployment("--controllers=+queue-controller"), False, id="only another"),
        pytest.param(deployment("--controllers=+job-controller"), True, id="only this"),
        pytest.param(deployment(replicas=0), False, id="scaled to nothing"),
        pytest.param({}, True, id="nothing is known of it"),
    ],
)
def test_whether_volcanos_controller_serves_jobs(volcano: dict[str, Any], expected: bool) -> None:
    assert serves_jobs(volcano) is expected


VOLCANO, NATIVE = resources.VOLCANO_POD_GROUPS.identity, resources.NATIVE_POD_GROUPS[0].identity


@pytest.mark.parametrize(
    ("asked", "offered", "state", "found"),
    [
        pytest.param("auto", {VOLCANO, NATIVE}, State.GOOD, "found volcano, native; volcano is used", id="auto"),
        pytest.param("native", {VOLCANO, NATIVE}, State.GOOD, "found volcano, native; native is used", id="chosen"),
        pytest.param("auto", set(), State.GOOD, "found none: the pods of a job are scheduled one by one", id="none"),
        pytest.param(
            "coscheduling",
            {VOLCANO},
            State.LACKING,
            "found volcano: --gang coscheduling: the cluster does not serve scheduling.x-k8s.io/v1alpha1/podgroups",
            id="missing",
        ),
    ],
)
def test_gang_providers(asked: str, offered: set[str], state: State, found: str) -> None:
    check = gang(asked, frozenset(offered))
    assert (check.state, check.found) == (state, found)
    assert check.todo or "is used" in check.found
