"""What the bars of the page are about: quotas for all pods, else nodes that take pods, else nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

import msgspec
import pytest

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live.cluster_capacity import ClusterCapacity, Limit
from pumice.client.cluster.live.job_table import Amounts, JobTable, SeenJob
from pumice.client.observer import Capacity, ListedRun
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model.quantity import Quantity
from pumice.model.units import EPOCH


class Forbidding:
    """Refuses every list, so that a table has what the test puts into it."""

    async def list_pages(self, *_: object, **__: object) -> AsyncGenerator[Any, None]:
        for refusal in (ApiError(403, "Forbidden", "no"),):
            raise refusal
        yield


def quantities(**found: str) -> Amounts:
    return {name: Quantity.parse(text) for name, text in found.items()}


def raw(found: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(found))


class Table(JobTable):
    def requests_of(self, uid: str, *, on_nodes: bool) -> Iterator[Amounts]:  # noqa: ARG002 - the same for all
        pod = quantities(cpu="1", memory="1Gi")
        yield from [pod] * (2 if on_nodes else 3)


def read(namespace: str, limits: list[Limit], nodes: list[Amounts]) -> tuple[Capacity, str]:
    connection = Connection("prod", cast("Any", None), namespace)
    table = Table(connection)
    ref = RunRef("train", 0, "ml", "u1")
    table.jobs.items["u1"] = SeenJob(b"{}", ListedRun(ref, EPOCH, ""))

    async def ask() -> tuple[Capacity, str]:
        connection._client, connection._loop = cast("Any", Forbidding()), asyncio.get_running_loop()
        capacity = ClusterCapacity(connection, table)
        capacity.quotas.items.update({str(number): each for number, each in enumerate(limits)})
        capacity.nodes.items.update({str(number): each for number, each in enumerate(nodes)})
        try:
            return await capacity.read()
        finally:
            await capacity.close()

    return asyncio.run(ask())


NODE = quantities(cpu="4", memory="8Gi")
TEAM = Limit("team", quantities(cpu="10"), quantities(cpu="5"))


def test_what_other_pods_use_of_the_quota_is_shown_too() -> None:
    found, what = read("ml", [TEAM], [NODE])
    assert what == "the quota of ml"
    assert [(each.run, str(each.amounts["cpu"])) for each in found.holdings] == [("train", "3"), ("other pods", "2")]
    assert (found.total, str(found.free["cpu"])) == (quantities(cpu="10"), "5")


def test_the_quota_with_the_least_room_decides() -> None:
    other = Limit("other", quantities(cpu="100", memory="64Gi"), quantities(cpu="99"))
    found, _ = read("ml", [TEAM, other], [])
    assert found.total == quantities(cpu="100", memory="64Gi")


@pytest.mark.parametrize("namespace", [pytest.param("ml", id="without a quota"), pytest.param("", id="all namespaces")])
def test_else_nodes_are_shown(namespace: str) -> None:
    found, what = read(namespace, [], [NODE, NODE])
    assert (what, found.total) == ("2 nodes", quantities(cpu="8", memory="16Gi"))
    assert [(each.run, str(each.amounts["memory"])) for each in found.holdings] == [("train", "2Gi")]


def test_else_nothing() -> None:
    found, what = read("ml", [], [])
    assert (what, found.total, found.holdings) == ("", {}, ())


@pytest.mark.parametrize(
    ("spec", "is_kept"),
    [
        pytest.param({}, True, id="for all pods"),
        pytest.param({"scopes": ["BestEffort"]}, False, id="of a scope"),
        pytest.param({"scopeSelector": {"matchExpressions": []}}, False, id="of selected scopes"),
    ],
)
def test_quotas_that_count(spec: dict[str, object], is_kept: bool) -> None:
    capacity = ClusterCapacity(Connection("prod", cast("Any", None), "ml"), cast("Any", None))
    hard = {"requests.cpu": "10", "limits.cpu": "20", "pods": "5"}
    found = capacity.quotas.decode(raw({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard}}))
    assert found == (Limit("q", quantities(cpu="10"), {}) if is_kept else None)


@pytest.mark.parametrize(
    ("spec", "ready", "is_kept"),
    [
        pytest.param({}, "True", True, id="ready"),
        pytest.param({}, "Unknown", False, id="lost"),
        pytest.param({"unschedulable": True}, "True", False, id="cordoned"),
    ],
)
def test_nodes_that_take_pods(spec: dict[str, object], ready: str, is_kept: bool) -> None:
    capacity = ClusterCapacity(Connection("prod", cast("Any", None), "ml"), cast("Any", None))
    status = {"allocatable": {"cpu": "4", "pods": "110"}, "conditions": [{"type": "Ready", "status": ready}]}
    assert capacity.nodes.decode(raw({"metadata": {"name": "n"}, "spec": spec, "status": status})) == (
        quantities(cpu="4") if is_kept else None
    )
