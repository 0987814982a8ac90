"""The nodes of a cluster: what each has, and what the pods of all namespaces leave free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.client.backend import Node, NodeListing
from pumice.client.cluster.cluster_reading import requested
from pumice.client.cluster.connection import Connection
from pumice.diagnosis.cluster import objects
from pumice.engines.kubernetes.api.resources import NODES
from pumice.model.quantity import Quantity
from pumice.store.run_errors import Denied

_NOT_SHOWN: Final = ("ephemeral-storage", "hugepages-")
_NO_PODS: Final = "pods of all namespaces are not readable for you, so what is free is not known"


async def nodes(connection: Connection) -> NodeListing:
    """Raises Denied for a user who may not list nodes."""
    found = [msgspec.json.decode(raw, type=objects.Node) for raw in await connection.all(NODES)]
    warnings: list[str] = []
    used: Mapping[str, Mapping[str, Quantity]] | None = None
    try:
        used = await requested(connection)
    except Denied:
        warnings.append(_NO_PODS)
    return NodeListing([_node(each, used) for each in sorted(found, key=lambda one: one.name)], warnings)


def _node(found: objects.Node, used: Mapping[str, Mapping[str, Quantity]] | None) -> Node:
    total = {
        name: Quantity.parse(text) for name, text in found.status.allocatable.items() if not name.startswith(_NOT_SHOWN)
    }
    free = None
    if used is not None:
        taken = used.get(found.name, {})
        free = {name: str(amount - taken.get(name, Quantity())) for name, amount in total.items()}
    return Node(
        found.name,
        ready=found.is_ready,
        schedulable=not found.spec.unschedulable,
        total={name: str(amount) for name, amount in total.items()},
        free=free,
    )
