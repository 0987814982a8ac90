"""Affinity of a pod to nodes and to other pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import required_spelled, within
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.selectors import (
    check_label_keys,
    check_label_values,
    check_requirement,
    check_selector,
)
from pumice.model.findings import Finding
from pumice.model.syntax import dns_label_error, qualified_name_error

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_GREATEST_WEIGHT: Final = 100


def check_affinity(spec: View) -> Iterator[Finding]:
    affinity = spec.part("affinity")
    yield from _check_node_affinity(affinity.part("nodeAffinity"))
    for key in ("podAffinity", "podAntiAffinity"):
        yield from _check_pod_affinity(affinity.part(key))


def _check_node_affinity(affinity: View) -> Iterator[Finding]:
    if need := affinity.child(REQUIRED):
        if not need.get("nodeSelectorTerms"):
            yield need.missing("nodeSelectorTerms", "must have at least one term")
        for term in need.children("nodeSelectorTerms"):
            for requirement in term.children("matchExpressions"):
                yield from check_requirement(requirement, _NODE_OPERATORS)
                yield from check_label_values(requirement)
    for wish in affinity.children(PREFERRED):
        yield from _check_weight(wish)
        # Kubernetes does not check the values of a preference.
        for requirement in wish.part("preference").children("matchExpressions"):
            yield from check_requirement(requirement, _NODE_OPERATORS)


def _check_weight(wish: View) -> Iterator[Finding]:
    if not wish.has("weight"):
        yield wish.missing("weight")
    yield from within(wish, "weight", 1, _GREATEST_WEIGHT)


def _check_pod_affinity(affinity: View) -> Iterator[Finding]:
    for term in affinity.children(REQUIRED):
        yield from _check_pod_term(term)
    for wish in affinity.children(PREFERRED):
        yield from _check_weight(wish)
        yield from _check_pod_term(wish.part("podAffinityTerm"))


def _check_pod_term(term: View) -> Iterator[Finding]:
    yield from check_selector(term, "labelSelector")
    yield from check_selector(term, "namespaceSelector")
    for at, name in term.texts("namespaces"):
        if error := dns_label_error(name):
            yield Finding(at, error, name)
    yield from check_label_keys(term, "matchLabelKeys")
    yield from check_label_keys(term, "mismatchLabelKeys")
    mismatched = {name for _, name in term.texts("mismatchLabelKeys")}
    for at, name in term.texts("matchLabelKeys"):
        if name in mismatched:
            yield Finding(at, "cannot be in both matchLabelKeys and mismatchLabelKeys", name)
    yield from required_spelled(term, "topologyKey", qualified_name_error)
