"""Pod templates checked offline: what the API server would refuse a pod for, found before anything is sent to it.

Two kinds of findings come together: misfits with Kubernetes' own schema, which the caller hands in, and the rules that
no schema can say, written by hand from how Kubernetes 1.37 behaves, one topic a module. What only some clusters refuse
(because a feature gate is off there) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pumice.admission.podtemplate.claims import check_claim
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_metadata
from pumice.admission.podtemplate.pod import check_spec
from pumice.model.findings import Finding, Path
from pumice.model.shape import Schema, misfits

__all__ = ["check_claim_spec", "check_pod_spec", "check_template"]


def check_template(template: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    view = View(template, at)
    rules = [*check_metadata(view), *check_spec(view.part("spec"))]
    return _together([*misfits(template, "PodTemplateSpec", schema, at)], rules)


def check_pod_spec(spec: Mapping[str, object], at: Path) -> Iterator[Finding]:
    """The rules alone, for pods whose shape is known to be right."""
    yield from check_spec(View(spec, at))


def check_claim_spec(spec: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    return _together([*misfits(spec, "PersistentVolumeClaimSpec", schema, at)], [*check_claim(View(spec, at))])


def _together(shape: list[Finding], rules: list[Finding]) -> Iterator[Finding]:
    """Where the shape is wrong already, a rule about the same place or one within it has nothing to add."""
    wrong = {finding.path for finding in shape}
    yield from shape
    for finding in rules:
        if not any(finding.path[:length] in wrong for length in range(len(finding.path) + 1)):
            yield finding
