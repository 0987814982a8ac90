"""Scheduling of a pod: node labels, affinity, tolerations, topology spread, gates, and resource claims."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import (
    one_of,
    required,
    required_one_of,
    required_spelled,
    spelled,
    unique,
    within,
)
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.selectors import (
    check_label_keys,
    check_label_values,
    check_labels,
    check_requirement,
    check_selector,
    selector_keys,
)
from pumice.model.findings import Finding, Path
from pumice.model.syntax import dns_label_error, dns_subdomain_error, label_value_error, qualified_name_error

_TOLERATION_OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_WHOLE_NUMBER: Final = "0|-?[1-9][0-9]*"
_GREATEST_INT64: Final = 2**63 - 1
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_GREATEST_WEIGHT: Final = 100


def check_scheduling(spec: View) -> Iterator[Finding]:
    yield from check_labels(spec, "nodeSelector")
    yield from spelled(spec, "nodeName", dns_subdomain_error)
    yield from spelled(spec, "priorityClassName", dns_subdomain_error)
    yield from one_of(spec, "preemptionPolicy", ("PreemptLowerPriority", "Never"), blank_is_unset=False)
    if spec.has("priority"):
        yield spec.warning(
            "priority", "is computed from priorityClassName; the cluster refuses a pod with another value"
        )
    yield from _check_affinity(spec.part("affinity"))
    for toleration in spec.children("tolerations"):
        yield from _check_toleration(toleration)
    yield from _check_spreading(spec)
    for gate in spec.children("readinessGates"):
        yield from required_spelled(gate, "conditionType", qualified_name_error)
    seen: dict[str, Path] = {}
    for gate in spec.children("schedulingGates"):
        yield from required_spelled(gate, "name", qualified_name_error)
        yield from unique(seen, gate.text("name"), gate.at / "name", "this gate")
    if seen and spec.text("nodeName"):
        yield spec.error("nodeName", "cannot be set while schedulingGates hold the pod back")
    yield from _check_claims(spec)
    if group := spec.child("schedulingGroup"):
        yield from required_spelled(group, "podGroupName", dns_subdomain_error)
        if spec.size("evictionResponders"):
            yield spec.missing("schedulingGroup", "cannot be set together with evictionResponders")


def _check_toleration(toleration: View) -> Iterator[Finding]:
    yield from spelled(toleration, "key", qualified_name_error)
    yield from one_of(toleration, "operator", _TOLERATION_OPERATORS)
    yield from one_of(toleration, "effect", _EFFECTS)
    operator, value = toleration.text("operator"), toleration.text("value")
    if toleration.is_blank("key") and operator != "Exists":
        yield toleration.error("operator", "must be Exists when there is no key")
    if toleration.has("tolerationSeconds") and toleration.text("effect") != "NoExecute":
        yield toleration.error("effect", "must be NoExecute when tolerationSeconds is set")
    if operator in {"", "Equal"}:
        yield from spelled(toleration, "value", label_value_error)
    elif operator == "Exists" and value:
        yield toleration.error("value", "cannot be set with Exists")
    elif operator in {"Lt", "Gt"} and not (re.fullmatch(_WHOLE_NUMBER, value) and abs(int(value)) <= _GREATEST_INT64):
        yield toleration.error("value", f"must be a whole number for {operator}")


def _check_spreading(spec: View) -> Iterator[Finding]:
    seen: dict[str, Path] = {}
    for constraint in spec.children("topologySpreadConstraints"):
        yield from required(constraint, "maxSkew", "topologyKey")
        yield from within(constraint, "maxSkew", 1)
        yield from required_one_of(constraint, "whenUnsatisfiable", _ACTIONS)
        action = constraint.text("whenUnsatisfiable")
        kind = f"{constraint.text('topologyKey')}, {action}"
        yield from unique(seen, kind, constraint.at, "this pair of topologyKey and whenUnsatisfiable")
        yield from within(constraint, "minDomains", 1)
        if constraint.has("minDomains") and action != "DoNotSchedule":
            yield constraint.error("minDomains", "needs whenUnsatisfiable DoNotSchedule")
        for key in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from one_of(constraint, key, ("Honor", "Ignore"), blank_is_unset=False)
        yield from check_selector(constraint, "labelSelector")
        yield from check_label_keys(constraint, "matchLabelKeys")
        selected = set(selector_keys(constraint, "labelSelector"))
        for at, name in constraint.texts("matchLabelKeys"):
            if name in selected:
                yield Finding(at, "cannot be in both matchLabelKeys and labelSelector", name)


def _check_claims(spec: View) -> Iterator[Finding]:
    seen: dict[str, Path] = {}
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for claim in spec.children("resourceClaims"):
        yield from required_spelled(claim, "name", dns_label_error)
        yield from unique(seen, claim.text("name"), claim.at / "name", "this name")
        given = [key for key in sources if claim.has(key)]
        if len(given) != 1:
            yield Finding(claim.at, "must have exactly one of resourceClaimName and resourceClaimTemplateName")
        for key in given:
            yield from spelled(claim, key, dns_subdomain_error, blank_is_unset=False)


def _check_affinity(affinity: View) -> Iterator[Finding]:
    to_nodes = affinity.part("nodeAffinity")
    if need := to_nodes.child(_REQUIRED):
        if not need.get("nodeSelectorTerms"):
            yield need.missing("nodeSelectorTerms", "must have at least one term")
        for term in need.children("nodeSelectorTerms"):
            for requirement in term.children("matchExpressions"):
                yield from check_requirement(requirement, _NODE_OPERATORS)
                yield from check_label_values(requirement)
    for wish in to_nodes.children(_PREFERRED):
        yield from _check_weight(wish)
        # Kubernetes does not check the values of a preference.
        for requirement in wish.part("preference").children("matchExpressions"):
            yield from check_requirement(requirement, _NODE_OPERATORS)
    for to_pods in (affinity.part("podAffinity"), affinity.part("podAntiAffinity")):
        for term in to_pods.children(_REQUIRED):
            yield from _check_pod_term(term)
        for wish in to_pods.children(_PREFERRED):
            yield from _check_weight(wish)
            yield from _check_pod_term(wish.part("podAffinityTerm"))


def _check_weight(wish: View) -> Iterator[Finding]:
    if not wish.has("weight"):
        yield wish.missing("weight")
    yield from within(wish, "weight", 1, _GREATEST_WEIGHT)


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
