"""What the bars of the page show: the quota of the namespace, else the nodes, else nothing. Each is watched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live.job_table import Amounts, JobTable
from pumice.client.cluster.live_objects import LiveTable, within
from pumice.client.observer import Capacity, Holding
from pumice.diagnosis.cluster.objects import Node, Quota
from pumice.engines.kubernetes.api.resources import NODES, QUOTAS
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, sum_usage
from pumice.model.text import plural

_SHOWN: Final = ("cpu", "memory", GPU)
_REQUESTS: Final = "requests."
_NOTHING: Final = Quantity()
_PATIENCE: Final = 1.0  # seconds; the bars may come later


_QUOTA: Final = msgspec.json.Decoder(Quota)
_NODE: Final = msgspec.json.Decoder(Node)


class Limit(Struct, frozen=True):
    """The hard limits of a quota, and what is used of them."""

    name: str
    hard: Amounts
    used: Amounts


@dataclass(slots=True)
class ClusterCapacity:
    connection: Connection
    table: JobTable
    quotas: LiveTable[Limit] = field(init=False)
    nodes: LiveTable[Amounts] = field(init=False)

    def __post_init__(self) -> None:
        namespace = self.connection.namespace
        self.quotas = LiveTable(self.connection, QUOTAS, namespace, _limit)
        self.nodes = LiveTable(self.connection, NODES, "", _allocatable)

    async def close(self) -> None:
        await self.quotas.close()
        await self.nodes.close()

    async def read(self) -> tuple[Capacity, str]:
        """Return the amounts, and what they are about."""
        if self.connection.namespace:
            await within(_PATIENCE, self.quotas.first())
            if limits := list(self.quotas.items.values()):
                return self._of_quotas(limits), f"the quota of {self.connection.namespace}"
        await within(_PATIENCE, self.nodes.first())
        total = sum_usage((each, 1) for each in self.nodes.items.values())
        if not total:
            return Capacity("", {}, {}, (), (), {}, {}), ""
        number = len(self.nodes.items)
        return self._of(total, self._holdings(on_nodes=True)), plural(number, "node")

    def _of_quotas(self, limits: Sequence[Limit]) -> Capacity:
        """Of several quotas, that with the least room decides for a resource."""
        total: dict[str, Quantity] = {}
        used: dict[str, Quantity] = {}
        for limit in limits:
            for name, hard in limit.hard.items():
                taken = limit.used.get(name, _NOTHING)
                if name not in total or hard - taken < total[name] - used[name]:
                    total[name], used[name] = hard, taken
        holdings = self._holdings(on_nodes=False)
        of_jobs = sum_usage((each.amounts, 1) for each in holdings)
        others = {name: taken - of_jobs.get(name, _NOTHING) for name, taken in used.items()}
        others = {name: amount for name, amount in others.items() if amount > _NOTHING}
        return self._of(total, [*holdings, *([Holding("other pods", "", others)] if others else [])])

    def _of(self, total: Mapping[str, Quantity], holdings: Sequence[Holding]) -> Capacity:
        held = sum_usage((each.amounts, 1) for each in holdings)
        free = {name: max(amount - held.get(name, _NOTHING), _NOTHING) for name, amount in total.items()}
        return Capacity("", total, free, (), holdings, {}, {})

    def _holdings(self, *, on_nodes: bool) -> list[Holding]:
        found = []
        for uid, job in self.table.jobs.items.items():
            amounts = _sum(self.table.requests_of(uid, on_nodes=on_nodes))
            if amounts:
                found.append(Holding(str(job.ref), uid, amounts))
        return found


def _sum(amounts: Iterable[Amounts]) -> Amounts:
    """Return a sum of amounts, of which many are the same object."""
    numbers: dict[int, int] = {}
    known: dict[int, Amounts] = {}
    for each in amounts:
        numbers[id(each)] = numbers.get(id(each), 0) + 1
        known[id(each)] = each
    return sum_usage((known[key], number) for key, number in numbers.items())


def _limit(raw: msgspec.Raw) -> Limit | None:
    """Return a quota for all pods; None for another one, or if it limits nothing that is shown."""
    found = _QUOTA.decode(raw)
    if not found.is_for_all_pods:
        return None
    hard = _quantities(found.status.hard)
    return Limit(found.metadata.name, hard, _quantities(found.status.used)) if hard else None


def _quantities(texts: Mapping[str, str]) -> Amounts:
    return {
        name: Quantity.parse(texts[key])
        for name in _SHOWN
        for key in (name, _REQUESTS + name)  # the second name means the same
        if key in texts
    }


def _allocatable(raw: msgspec.Raw) -> Amounts | None:
    """Return what a node offers to pods; None for one that takes none."""
    found = _NODE.decode(raw)
    if found.spec.unschedulable or not found.is_ready:
        return None
    return {name: Quantity.parse(found.status.allocatable[name]) for name in _SHOWN if name in found.status.allocatable}
