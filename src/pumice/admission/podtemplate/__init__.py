"""Check pod templates offline: find what the API server would refuse, before anything is sent to it.

The findings have two sources: Kubernetes' schema, which the caller passes, and the rules that a schema cannot express,
written after the behaviour of Kubernetes 1.37, one module per topic; those of a pod spec's own fields are here. What
only some clusters refuse (because a feature gate is off) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Final

from pumice.admission.podtemplate.checks import GREATEST_ID, one_of, required_one_of, spelled, unique, within
from pumice.admission.podtemplate.claims import check_claim
from pumice.admission.podtemplate.containers import RESTART_POLICIES, check_containers
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_metadata
from pumice.admission.podtemplate.network import check_network
from pumice.admission.podtemplate.resources import check_pod_resources
from pumice.admission.podtemplate.scheduling import check_scheduling
from pumice.admission.podtemplate.security import check_pod_security
from pumice.admission.podtemplate.volumes import check_volumes, volume_kinds
from pumice.model.findings import MOST_FINDINGS, Finding, Path
from pumice.model.shape import Schema, misfits
from pumice.model.syntax import dns_subdomain_error, qualified_name_error

__all__ = ["check_claim_spec", "check_pod_spec", "check_template"]
_MOST_RESPONDERS: Final = 10
# Kubernetes reserves lower priorities.
_LEAST_PRIORITY: Final = 1000
_GREATEST_PRIORITY: Final = 100_000


def check_template(template: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    rules = chain(check_metadata(View(template, at)), check_pod_spec(template.get("spec"), at / "spec"))
    shape = misfits(template, "PodTemplateSpec", schema, at)
    return _together([*islice(shape, MOST_FINDINGS)], [*islice(rules, MOST_FINDINGS)])


def check_claim_spec(spec: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    return _together([*misfits(spec, "PersistentVolumeClaimSpec", schema, at)], [*check_claim(View(spec, at))])


def _together(shape: list[Finding], rules: list[Finding]) -> Iterator[Finding]:
    """Drop findings of rules at or below a path whose shape is wrong."""
    wrong = {finding.path for finding in shape}
    yield from shape
    yield from (finding for finding in rules if not finding.path.is_within(wrong))


def check_pod_spec(document: object, at: Path) -> Iterator[Finding]:
    """Check the rules alone, for pods that fit the schema."""
    spec = View(document, at)
    yield from one_of(spec, "restartPolicy", RESTART_POLICIES)
    yield from within(spec, "activeDeadlineSeconds", 1, GREATEST_ID)
    if (spec.number("terminationGracePeriodSeconds") or 0) < 0:
        yield spec.warning("terminationGracePeriodSeconds", "should be 0 or more; Kubernetes uses 1 instead")
    if spec.size("ephemeralContainers"):
        message = "cannot be part of a template: they are added to a running pod, to debug it"
        yield spec.missing("ephemeralContainers", message, "use containers or initContainers")
    # The old name counts only if the new one is not set.
    key = "serviceAccount" if spec.is_blank("serviceAccountName") else "serviceAccountName"
    yield from spelled(spec, key, dns_subdomain_error)
    yield from spelled(spec, "runtimeClassName", dns_subdomain_error, blank_is_unset=False)
    yield from check_volumes(spec)
    yield from check_containers(spec, volume_kinds(spec))
    yield from check_pod_resources(spec)
    yield from check_pod_security(spec)
    if system := spec.child("os"):
        yield from required_one_of(system, "name", ("linux", "windows"))
    yield from check_scheduling(spec)
    yield from check_network(spec)
    yield from _check_responders(spec)


def _check_responders(spec: View) -> Iterator[Finding]:
    if spec.size("evictionResponders") > _MOST_RESPONDERS:
        yield spec.missing("evictionResponders", f"must be at most {_MOST_RESPONDERS}")
    names: dict[str, Path] = {}
    for responder in spec.children("evictionResponders"):
        name = responder.text("name")
        domain = f".{name.partition('/')[0]}"
        if "/" not in name or qualified_name_error(name):
            yield responder.error("name", "must be a name with a domain before it, such as example.com/responder")
        elif domain.endswith((".k8s.io", ".kubernetes.io")):
            yield responder.error("name", "the domains k8s.io and kubernetes.io are reserved")
        yield from unique(names, name, responder.at / "name", "this name")
        yield from within(responder, "priority", _LEAST_PRIORITY, _GREATEST_PRIORITY)
