"""Check pod templates offline: find what the API server would refuse, before anything is sent to it.

The findings have two sources: Kubernetes' schema, which the caller passes, and the rules that a schema cannot express,
written after the behaviour of Kubernetes 1.37, one module per topic. What only some clusters refuse (because a feature
gate is off) is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice

from pumice.admission.podtemplate.claims import check_claim
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_metadata
from pumice.admission.podtemplate.pod import check_spec
from pumice.model.findings import MOST_FINDINGS, Finding, Path
from pumice.model.shape import Schema, misfits

__all__ = ["check_claim_spec", "check_pod_spec", "check_template"]


def check_template(template: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    view = View(template, at)
    rules = islice(chain(check_metadata(view), check_spec(view.part("spec"))), MOST_FINDINGS)
    return _together([*islice(misfits(template, "PodTemplateSpec", schema, at), MOST_FINDINGS)], [*rules])


def check_pod_spec(spec: Mapping[str, object], at: Path) -> Iterator[Finding]:
    """Check the rules alone, for pods that fit the schema."""
    yield from check_spec(View(spec, at))


def check_claim_spec(spec: Mapping[str, object], at: Path, schema: Schema) -> Iterator[Finding]:
    return _together([*misfits(spec, "PersistentVolumeClaimSpec", schema, at)], [*check_claim(View(spec, at))])


def _together(shape: list[Finding], rules: list[Finding]) -> Iterator[Finding]:
    """Drop findings of rules at or below a path whose shape is wrong."""
    wrong = {finding.path for finding in shape}
    yield from shape
    yield from (finding for finding in rules if not finding.path.is_within(wrong))
