from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.install.checks.check_result import Check, State
from pumice.engines.kubernetes.install.checks.cluster_checks import controller, gang, serves_jobs
from pumice.engines.kubernetes.install.manifests import Wishes, manifests
from pumice.model.timestamps import EPOCH
from tests.unit.engines.kubernetes.played_api import client_of


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


def check_controller(*deployments: dict[str, Any]) -> Check:
    """Check a cluster without Leases that has these Deployments."""

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({"metadata": {}, "items": deployments if "deployments" in request.path else []})

    async def check() -> Check:
        async with client_of(answer) as client:
            return await controller(client, "pumice-system", EPOCH)

    return asyncio.run(check())


def our_deployment(*flags: str, ready: int, **container: Any) -> dict[str, Any]:
    deployment = next(one for one in manifests(Wishes(image="pumice")) if one["kind"] == "Deployment")
    (present,) = deployment["spec"]["template"]["spec"]["containers"]
    present |= {"args": [*present["args"], *flags], **container}
    return {**deployment, "status": {"readyReplicas": ready}}


@pytest.mark.parametrize(
    ("deployment", "state", "found"),
    [
        pytest.param(
            our_deployment("--no-leader-elect", ready=1),
            State.GOOD,
            "Deployment pumice-system/pumice-controller runs without leader election",
            id="flag",
        ),
        pytest.param(
            our_deployment(ready=1, env=[{"name": "PUMICE_NO_LEADER_ELECT", "value": "true"}]),
            State.GOOD,
            "Deployment pumice-system/pumice-controller runs without leader election",
            id="environment",
        ),
        pytest.param(
            our_deployment("--no-leader-elect", ready=0),
            State.LACKING,
            "Deployment pumice-system/pumice-controller has no ready pod",
            id="not ready",
        ),
        pytest.param(
            our_deployment("--no-leader-elect", ready=2),
            State.LACKING,
            "2 pods of Deployment pumice-system/pumice-controller write the same Jobs",
            id="two writers",
        ),
        pytest.param(
            our_deployment(ready=2),
            State.UNKNOWN,
            "no controller holds the Lease pumice-system/pumice-controller; "
            "a controller with --no-leader-elect outside of the cluster cannot be seen from here",
            id="with leader election but no Lease",
        ),
    ],
)
def test_a_controller_without_leader_election(deployment: dict[str, Any], state: State, found: str) -> None:
    check = check_controller(deployment)
    assert (check.state, check.found) == (state, found)
    assert check.todo or check.is_good
