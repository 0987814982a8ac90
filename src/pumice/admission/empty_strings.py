"""Fields that Volcano's CRD does not allow to be empty strings; omitting them is fine.

Helm charts often leave an empty string, and the API server would refuse the Job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import ROOT, Finding


def check_empty_strings(document: Mapping[str, Any]) -> Iterator[Finding]:
    spec = View(document, ROOT).part("spec")
    yield from _check(spec, "priorityClassName", "runningEstimate")
    yield from _check(spec.part("networkTopology"), "mode")
    for policy in spec.children("policies"):
        yield from _check(policy, "event", "timeout")
    for task in spec.children("tasks"):
        yield from _check(task, "topologyPolicy")
        yield from _check(task.part("dependsOn"), "condition")
        yield from _check(task.part("partitionPolicy").part("networkTopology"), "mode")
        for policy in task.children("policies"):
            yield from _check(policy, "event", "timeout")


def _check(view: View, *fields: str) -> Iterator[Finding]:
    for field in fields:
        if view.get(field) == "":
            yield view.missing(field, "must not be empty", hint="omit it")
