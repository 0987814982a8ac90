"""Which nodes a scheduler may give to a pod, and how much each lacks. The text of the scheduler says neither.

The rules are those of Kubernetes for cordoned nodes, taints, nodeSelector and required node affinity; affinity between
pods, topology spread, ports and volumes are not computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pumice.diagnosis.cluster.objects import Node, Taint, quantities
from pumice.diagnosis.cluster.reading import PodReading, shortage
from pumice.diagnosis.why import Shortage
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import pod_usage, sum_usage

_BLOCKING: Final = ("NoSchedule", "NoExecute")
_OF_QUOTA: Final = ("count/", "requests.", "limits.")
_ZERO: Final = Quantity()


class NodeFit(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node does not take a pod; all empty if it does."""

    node: str
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()  # that the pod does not tolerate
    selector: tuple[str, ...] = ()  # what the pod selects and the node does not have
    short: tuple[Shortage, ...] = ()  # of what is free now
    too_small: tuple[Shortage, ...] = ()  # of what the node has when it is empty

    @property
    def is_excluded(self) -> bool:
        return bool(self.cordoned or self.taints or self.selector)

    @property
    def exclusion(self) -> str:
        """`taint a=b:NoSchedule, no label disktype=nvme`."""
        taints = [f"taint {taint}" for taint in self.taints]
        labels = [f"does not match {wanted}" for wanted in self.selector]
        return ", ".join([*(["cordoned"] if self.cordoned else []), *taints, *labels])


def demand_of(spec: Manifest) -> dict[str, Quantity]:
    """Return what a pod takes from a node, by the names of `status.allocatable`."""
    return {
        name: amount
        for name, amount in pod_usage(spec).items()
        if not name.startswith(_OF_QUOTA) and not amount.is_zero
    }


def fits(spec: Manifest, nodes: Sequence[Node], usage: Mapping[str, Mapping[str, Quantity]] | None) -> list[NodeFit]:
    """Return how a pod fits each node, the best node first. Without `usage`, nodes count as if they were empty."""
    demand = demand_of(spec)
    return sorted((_fit(spec, demand, node, usage or {}) for node in nodes), key=_rank)


def give_nodes(
    pods: Sequence[PodReading], nodes: Sequence[Node], usage: Mapping[str, Mapping[str, Quantity]]
) -> Mapping[str, Mapping[str, Quantity]]:
    """Return the usage after each of these pods has been given the best node that has room for it."""
    for pod in pods:
        best = next((fit for fit in fits(pod.details.spec, nodes, usage) if not (fit.is_excluded or fit.short)), None)
        if best is not None:
            parts = ((usage.get(best.node, {}), 1), (demand_of(pod.details.spec), 1))
            usage = {**usage, best.node: sum_usage(parts)}
    return usage


def _fit(
    spec: Manifest, demand: Mapping[str, Quantity], node: Node, usage: Mapping[str, Mapping[str, Quantity]]
) -> NodeFit:
    allocatable, used = quantities(node.status.allocatable), usage.get(node.name, {})
    free = {name: amount - used.get(name, _ZERO) for name, amount in allocatable.items()}
    return NodeFit(
        node=node.name,
        cordoned=node.spec.unschedulable and not _tolerates(spec, _CORDONED),
        taints=tuple(
            taint
            for taint in node.spec.taints
            if taint.effect in _BLOCKING and taint.key != _CORDONED.key and not _tolerates(spec, taint)
        ),
        selector=tuple(_unmatched(spec, node)),
        short=tuple(_shortages(demand, free, allocatable)),
        too_small=tuple(_shortages(demand, allocatable, allocatable)),
    )


# Cordoning a node sets the field and this taint.
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def _shortages(
    demand: Mapping[str, Quantity], free: Mapping[str, Quantity], capacity: Mapping[str, Quantity]
) -> Iterator[Shortage]:
    for name, wanted in demand.items():
        if wanted > free.get(name, _ZERO):
            yield shortage(name, wanted, free.get(name, _ZERO), capacity.get(name, _ZERO))


def _rank(fit: NodeFit) -> tuple[bool, int, int, float, str]:
    """Nodes that may take the pod come first, then those that lack the least."""
    missing = sum(1 - Quantity.parse(short.free).nanos / Quantity.parse(short.wanted).nanos for short in fit.short)
    return (fit.is_excluded, len(fit.too_small), len(fit.short), missing, fit.node)


def _tolerates(spec: Manifest, taint: Taint) -> bool:
    for each in spec.get("tolerations") or ():
        key, effect, operator, value = (each.get(name) or "" for name in ("key", "effect", "operator", "value"))
        is_equal = operator in ("", "Equal") and value == taint.value
        if key in ("", taint.key) and effect in ("", taint.effect) and (operator == "Exists" or is_equal):
            return True
    return False


def _unmatched(spec: Manifest, node: Node) -> Iterator[str]:
    """Yield what the pod selects and the node does not have."""
    labels = node.metadata.labels
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            yield f"{key}={value}"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = (affinity or {}).get("nodeSelectorTerms") or []
    if affinity and not any(_term_matches(term, node) for term in terms):
        texts = []
        for term in terms:
            wanted = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
            texts.append(" and ".join(map(_expression_text, wanted)))
        yield "nodeAffinity " + " or ".join(texts)


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    # A term without anything matches nothing.
    return bool(expressions or fields) and all(
        _expression_matches(each, values)
        for each, values in [
            *((each, node.metadata.labels) for each in expressions),
            *((each, {"metadata.name": node.name}) for each in fields),
        ]
    )


def _expression_matches(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    found, wanted = values.get(expression.get("key", "")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return found in wanted
        case "NotIn":
            return found not in wanted
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, found, wanted)
        case _:
            return False


def _compares(operator: str, found: str | None, wanted: Sequence[str]) -> bool:
    try:
        left, right = int(found or ""), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right


def _expression_text(expression: Mapping[str, Any]) -> str:
    values = expression.get("values") or []
    return f"{expression.get('key')} {expression.get('operator')}" + (f" ({', '.join(values)})" if values else "")
