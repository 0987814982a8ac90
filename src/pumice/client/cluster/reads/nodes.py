"""The nodes of a cluster: what each has, and what the pods of all namespaces leave free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pumice.client.backend import Node, NodeListing
from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.resources import NODES, PODS
from pumice.model.quantity import Quantity
from pumice.model.resources import pod_usage
from pumice.store.run_errors import Denied

_NOT_SHOWN: Final = ("ephemeral-storage", "hugepages-")
_NO_PODS: Final = "pods of all namespaces are not readable for you, so what is free is not known"


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    unschedulable: bool = False


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] = {}
    conditions: list[_Condition] = []


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _PodSpec(msgspec.Struct, rename="camel", frozen=True):
    node_name: str = ""


class _PodNode(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


async def nodes(connection: Connection) -> NodeListing:
    """Raises Denied for a user who may not list nodes."""
    found = [msgspec.json.decode(raw, type=_Node) for raw in await connection.all(NODES)]
    warnings: list[str] = []
    used: dict[str, dict[str, Quantity]] | None = {}
    try:
        fields = "status.phase!=Succeeded,status.phase!=Failed,spec.nodeName!="
        used = _used(await connection.all(PODS, fields=fields))
    except Denied:
        used = None
        warnings.append(_NO_PODS)
    return NodeListing([_node(each, used) for each in sorted(found, key=lambda one: one.metadata.name)], warnings)


def _used(pods: Iterable[msgspec.Raw]) -> dict[str, dict[str, Quantity]]:
    """Return what the pods of each node request."""
    used: dict[str, dict[str, Quantity]] = {}
    for raw in pods:
        name = msgspec.json.decode(raw, type=_PodNode).spec.node_name
        manifest: dict[str, Any] = msgspec.json.decode(raw)
        amounts = used.setdefault(name, {})
        for resource, amount in pod_usage(manifest["spec"]).items():
            amounts[resource] = amounts.get(resource, Quantity()) + amount
    return used


def _node(found: _Node, used: Mapping[str, Mapping[str, Quantity]] | None) -> Node:
    total = {
        name: Quantity.parse(text) for name, text in found.status.allocatable.items() if not name.startswith(_NOT_SHOWN)
    }
    free = None
    if used is not None:
        taken = used.get(found.metadata.name, {})
        free = {name: str(amount - taken.get(name, Quantity())) for name, amount in total.items()}
    return Node(
        found.metadata.name,
        ready=any(each.type == "Ready" and each.status == "True" for each in found.status.conditions),
        schedulable=not found.spec.unschedulable,
        total={name: str(amount) for name, amount in total.items()},
        free=free,
    )
