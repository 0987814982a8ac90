"""Extra objects: ConfigMaps, Secrets and claims beside the Job in a file, checked as Kubernetes checks them.

A finding never shows a value of a Secret, not even one of the wrong type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pumice.admission.config_data import PLAIN, check_config_data
from pumice.admission.podtemplate import check_claim_spec
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_labels_and_annotations
from pumice.model.findings import ABSENT, METADATA, ROOT, SPEC, Finding, without_consequences
from pumice.model.shape import Schema, misfits
from pumice.model.syntax import dns_label_error, dns_subdomain_error

CLAIM: Final = "PersistentVolumeClaim"
EXTRA_KINDS: Final = ("ConfigMap", "Secret", CLAIM)


def check_extra_object(document: Mapping[str, Any], kubernetes: Schema) -> list[Finding]:
    """Return the findings about a document whose kind is one of EXTRA_KINDS."""
    return without_consequences(_check(document, kubernetes))


def _check(document: Mapping[str, Any], kubernetes: Schema) -> Iterator[Finding]:
    kind, spec = document["kind"], document.get("spec")
    # `check_claim_spec` checks the shape of a claim's spec, too.
    plain = {key: value for key, value in document.items() if key != "spec" or not isinstance(spec, dict)}
    for finding in misfits(plain, kind, kubernetes, ROOT):
        yield _without_value(finding) if kind == "Secret" else finding
    yield from _check_metadata(document.get("metadata"))
    if kind == CLAIM and (spec is None or isinstance(spec, dict)):
        yield from check_claim_spec(spec or {}, SPEC, kubernetes)
    if kind != CLAIM:
        yield from check_config_data(document)


def _check_metadata(metadata: object) -> Iterator[Finding]:
    if not isinstance(metadata, dict):
        metadata = {} if metadata is None else {"name": "unreadable"}
    yield from check_labels_and_annotations(View(metadata, METADATA))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        yield Finding(METADATA / "name", "is missing")
    elif isinstance(name, str) and (error := dns_subdomain_error(name)):
        yield Finding(METADATA / "name", error, name)
    if isinstance(namespace, str) and namespace and (error := dns_label_error(namespace)):
        yield Finding(METADATA / "namespace", error, namespace)


def _without_value(finding: Finding) -> Finding:
    if finding.path and finding.path[0] in PLAIN and finding.value is not ABSENT:
        return replace(finding, value=ABSENT, hint=finding.hint.partition(":")[0])
    return finding
