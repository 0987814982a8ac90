from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, State, Target, ok
from pumice.engines.kubernetes.install.checks.cluster_checks import controller, gang, serves_jobs
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from pumice.model.units import EPOCH, to_microseconds
from tests.unit.engines.kubernetes.played_api import client_of


def deployment(*args: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"args": list(args)}]}}, **spec}}


@pytest.mark.parametrize(
    ("volcano", "expected"),
    [
        pytest.param(deployment("--leader-elect=false"), True, id="default installation"),
        pytest.param(deployment("--controllers=*,-sharding-controller"), True, id="all but another controller"),
        pytest.param(deployment("--controllers=*,-job-controller"), False, id="all but the job controller"),
        pytest.param(deployment("--controllers", "*,-job-controller"), False, id="flag and value as two words"),
        pytest.param(deployment("--controllers=+queue-controller"), False, id="only another controller"),
        pytest.param(deployment("--controllers=+job-controller"), True, id="only the job controller"),
        pytest.param(deployment(replicas=0), False, id="scaled to 0"),
        pytest.param({}, True, id="no spec"),
    ],
)
def test_serves_jobs_reads_the_controllers_flag(volcano: dict[str, Any], expected: bool) -> None:
    assert serves_jobs(volcano) is expected


VOLCANO, NATIVE = resources.VOLCANO_POD_GROUPS.identity, resources.NATIVE_POD_GROUPS[0].identity


@pytest.mark.parametrize(
    ("requested", "offered", "state", "found"),
    [
        pytest.param("auto", {VOLCANO, NATIVE}, State.OK, "found volcano, native; volcano is used", id="auto"),
        pytest.param("native", {VOLCANO, NATIVE}, State.OK, "found volcano, native; native is used", id="chosen"),
        pytest.param("auto", set(), State.OK, "found none: the pods of a job are scheduled one by one", id="none"),
        pytest.param(
            "coscheduling",
            {VOLCANO},
            State.MISSING,
            "found volcano: --gang coscheduling: the cluster does not serve scheduling.x-k8s.io/v1alpha1/podgroups",
            id="missing",
        ),
    ],
)
def test_gang_providers(requested: str, offered: set[str], state: State, found: str) -> None:
    result = gang(requested, frozenset(offered))
    assert (result.state, result.found) == (state, found)
    assert result.hint or "is used" in result.found


def our_deployment(*flags: str, ready: int, **container: Any) -> dict[str, Any]:
    made = next(one for one in manifests(InstallOptions(image="pumice")) if one["kind"] == "Deployment")
    (present,) = made["spec"]["template"]["spec"]["containers"]
    present |= {"args": [*present["args"], *flags], **container}
    return {**made, "status": {"readyReplicas": ready}}


IN_ENVIRONMENT = [{"name": "PUMICE_NO_LEADER_ELECT", "value": "true"}]


@pytest.mark.parametrize(
    ("deployment", "state", "found"),
    [
        pytest.param(our_deployment("--no-leader-elect", ready=1), State.OK, "runs without leader", id="flag"),
        pytest.param(our_deployment(ready=1, env=IN_ENVIRONMENT), State.OK, "runs without leader", id="environment"),
        pytest.param(our_deployment("--no-leader-elect", ready=0), State.MISSING, "no ready pod", id="not ready"),
        pytest.param(our_deployment("--no-leader-elect", ready=2), State.MISSING, "2 pods of", id="two writers"),
        pytest.param(our_deployment(ready=2), State.UNKNOWN, "no controller holds the Lease", id="no Lease"),
    ],
)
def test_a_controller_without_a_lease(deployment: dict[str, Any], state: State, found: str) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response({"metadata": {}, "items": [deployment] if "deployments" in request.path else []})

    async def check() -> CheckResult:
        async with client_of(answer) as client:
            return await controller(client, Target(), EPOCH)

    result = asyncio.run(check())
    assert result.state is state
    assert found in result.found
    assert result.hint or result.is_ok


NOW = EPOCH + dt.timedelta(days=1)


def lease(name: str, holder: str, age: float = 1.0) -> dict[str, Any]:
    renewed = to_microseconds(NOW - dt.timedelta(seconds=age))
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder, "renewTime": renewed}}


def test_every_lease_that_is_held_is_listed() -> None:
    leases = [
        lease("pumice-controller", "a"),
        lease("pumice-controller-x", "b"),
        lease("pumice-controller-old", "c", age=61),
        lease("pumice-controller-free", ""),
        lease("pumice-controllers", "d"),
        {"metadata": {"name": "pumice-controller-new"}},
    ]

    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.path.endswith("/namespaces/kube-system/leases")
        return web.json_response({"metadata": {}, "items": leases})

    async def check() -> CheckResult:
        async with client_of(answer) as client:
            return await controller(client, Target("lab"), NOW)

    assert asyncio.run(check()) == ok(
        "a leads (Lease kube-system/pumice-controller); b leads namespace x (Lease kube-system/pumice-controller-x)",
    )
