from __future__ import annotations

import asyncio

from aiohttp import web

from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target
from pumice.engines.kubernetes.install.checks.permission_checks import installed_roles
from pumice.engines.kubernetes.install.permissions import granted, rbac_objects
from tests.unit.engines.kubernetes.played_api import client_of


def check(installed: str, needed: str, without: str = "-") -> CheckResult:
    """Compare the roles of an installation with one gang provider to the needs of another."""
    made = rbac_objects(Target().namespace, installed, webhook=True)
    roles = {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in made if _is_role(one)}
    roles = {key: one for key, one in roles.items() if key[0] != without}

    async def answer(request: web.BaseRequest) -> web.Response:
        namespace = request.path.partition("/namespaces/")[2].partition("/")[0]
        role = roles.get((namespace, request.path.rpartition("/")[2]))
        return web.json_response(role) if role is not None else web.json_response({}, status=404)

    async def checked() -> CheckResult:
        async with client_of(answer) as client:
            return await installed_roles(client, granted(needed), Target())

    return asyncio.run(checked())


def _is_role(manifest: dict[str, object]) -> bool:
    return manifest["kind"] in ("ClusterRole", "Role")


def test_the_roles_of_a_gang_provider_are_enough_for_it() -> None:
    assert check("native", "native").is_ok


def test_a_missing_role_for_the_lease_is_named() -> None:
    leases = "leases.coordination.k8s.io"
    assert check("native", "native", without="kube-system").found == (
        f"do not grant pumice-controller: get {leases} pumice-controller in kube-system, "
        f"update {leases} pumice-controller in kube-system, "
        f"list {leases} in kube-system, create {leases} in kube-system"
    )


def test_missing_permissions_are_named_with_their_group_and_once() -> None:
    found = check("none", "auto").found
    assert found.startswith("do not grant pumice-controller: get podgroups.scheduling.volcano.sh, ")
    assert found.endswith("; pumice-webhook: list queues.scheduling.volcano.sh, watch queues.scheduling.volcano.sh")
    assert " and 10 more; " in found
    listed = found.partition("controller: ")[2].partition(" and ")[0].split(", ")
    assert len(listed) == len(set(listed)) == 8
