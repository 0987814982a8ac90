from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.install.checks import lease_checks
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, State, Target
from pumice.engines.memory.clock import EPOCH
from pumice.model.timestamps import to_microseconds
from tests.unit.engines.kubernetes.played_api import client_of

NAME = "pumice-controller"


def lease(where: str, holder: str, age: float = 1.0) -> dict[str, Any]:
    namespace, name = where.split("/")
    renewed = to_microseconds(EPOCH - dt.timedelta(seconds=age))
    return {
        "metadata": {"namespace": namespace, "name": name, "resourceVersion": "1"},
        "spec": {"holderIdentity": holder, "renewTime": renewed},
    }


def check(
    monkeypatch: pytest.MonkeyPatch, *lists: list[dict[str, Any]], forbidden: bool = False
) -> tuple[CheckResult | None, list[str]]:
    """Check a cluster whose Leases are those of the first list, then those of the next."""
    monkeypatch.setattr(lease_checks, "RENEWAL_SECONDS", 0.0)
    pending, asked = list(lists), []

    async def answer(request: web.BaseRequest) -> web.Response:
        asked.append(request.path)
        namespace = request.path.partition("/namespaces/")[2].partition("/")[0]
        if forbidden and not namespace:
            return web.json_response({"reason": "Forbidden"}, status=403)
        found = pending[0] if len(pending) == 1 or namespace else pending.pop(0)
        items = [one for one in found if not namespace or one["metadata"]["namespace"] == namespace]
        return web.json_response({"metadata": {}, "items": items})

    async def checked() -> CheckResult | None:
        async with client_of(answer) as client:
            return await lease_checks.leaders(client, Target("lab"), EPOCH)

    return asyncio.run(checked()), asked


BOTH = [lease(f"kube-system/{NAME}", "a"), lease(f"lab/{NAME}", "a")]
TWO = [lease(f"kube-system/{NAME}", "a"), lease(f"lab/{NAME}", "b")]


@pytest.mark.parametrize(
    ("leases", "state", "found"),
    [
        pytest.param(BOTH, State.OK, f"a leads (Lease kube-system/{NAME}, lab/{NAME})", id="one holder of both"),
        pytest.param(
            TWO,
            State.MISSING,
            f"several controllers serve the same jobs: a leads (Lease kube-system/{NAME}); b leads (Lease lab/{NAME})",
            id="two holders",
        ),
        pytest.param(
            [lease(f"kube-system/{NAME}-x", "a"), lease(f"kube-system/{NAME}-y", "b")],
            State.OK,
            f"a leads namespace x (Lease kube-system/{NAME}-x); b leads namespace y (Lease kube-system/{NAME}-y)",
            id="two namespaces",
        ),
        pytest.param(
            [lease(f"other/{NAME}", "a"), lease(f"kube-system/{NAME}-y", "b")],
            State.MISSING,
            "several controllers serve the same jobs: "
            f"a leads (Lease other/{NAME}); b leads namespace y (Lease kube-system/{NAME}-y)",
            id="all and one",
        ),
        pytest.param(
            [
                lease(f"kube-system/{NAME}", "a"),
                lease(f"lab/{NAME}", "b", age=61),
                lease(f"x/{NAME}", ""),
                lease("x/pumice-controllers", "c"),
            ],
            State.OK,
            f"a leads (Lease kube-system/{NAME})",
            id="expired, released, another",
        ),
    ],
)
def test_every_live_lease_is_listed(
    monkeypatch: pytest.MonkeyPatch, leases: list[dict[str, Any]], state: State, found: str
) -> None:
    result, _ = check(monkeypatch, leases)
    assert result is not None
    assert (result.state, result.found) == (state, found)
    assert bool(result.hint) == (state is State.MISSING)


def test_a_controller_that_has_just_ended_is_no_second_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = check(monkeypatch, TWO, [TWO[0], lease(f"lab/{NAME}", "b", age=0)])
    assert result is not None
    assert result.found == f"b leads (Lease lab/{NAME})"


def test_without_permission_to_list_all_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = check(monkeypatch, BOTH, forbidden=True)
    assert result is not None
    assert result.is_ok
    assert [path.split("/")[5] for path in asked[1:]] == ["kube-system", "pumice-system", "lab"]


def test_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, [])[0] is None
