from __future__ import annotations

import asyncio

from aiohttp import web

from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target
from pumice.engines.kubernetes.install.checks.permission_checks import installed_roles
from pumice.engines.kubernetes.install.permissions import granted, rbac_objects
from tests.unit.engines.kubernetes.played_api import client_of


def check(installed: str, needed: str) -> CheckResult:
    """Compare the roles of an installation with one gang provider to the needs of another."""
    roles = {one["metadata"]["name"]: one for one in rbac_objects("n", installed, webhook=True) if _is_role(one)}

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.json_response(roles[request.path.rpartition("/")[2]])

    async def checked() -> CheckResult:
        async with client_of(answer) as client:
            return await installed_roles(client, granted(needed), Target())

    return asyncio.run(checked())


def _is_role(manifest: dict[str, object]) -> bool:
    return manifest["kind"] == "ClusterRole"


def test_the_roles_of_a_gang_provider_are_enough_for_it() -> None:
    assert check("native", "native").is_ok


def test_missing_permissions_are_named_with_their_group_and_once() -> None:
    found = check("none", "auto").found
    assert found.startswith("do not grant pumice-controller: get podgroups.scheduling.volcano.sh, ")
    assert found.endswith("; pumice-webhook: list queues.scheduling.volcano.sh, watch queues.scheduling.volcano.sh")
    assert " and 10 more; " in found
    listed = found.partition("controller: ")[2].partition(" and ")[0].split(", ")
    assert len(listed) == len(set(listed)) == 8
