"""Findings that an API server makes about an object: what its errors say, at the paths of the Job file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from pumice.diagnosis.cluster.admission_errors import Refusal, read_refusal
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import Hint
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model.findings import ROOT, Finding, Path

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]+)"')
_OLD_DEFINITION: Final = "the definition of Jobs on this cluster has no such field"
_UPGRADE: Final = "leave it out, or ask an administrator to apply what pumice install --crds-only prints"
# The field of a pod that names what is missing.
_FIELDS: Final = {"ServiceAccount": "serviceAccountName", "PriorityClass": "priorityClassName"}


def parse_path(text: str) -> Path:
    """Return the path that an API server writes: `spec.tasks[0].template.metadata.labels[app.kubernetes.io/name]`."""
    steps = (match[1] if match[1] is not None else match[2] for match in _STEP.finditer(text))
    return Path(int(step) if step.isdigit() else step for step in steps)


def job_findings(error: ApiError) -> Iterator[Finding]:
    """Yield why the API server refuses a Job."""
    unknown = _UNKNOWN_FIELD.findall(str(error)) if error.status == HTTPStatus.BAD_REQUEST else []
    for field in unknown:
        yield Finding(parse_path(field), _OLD_DEFINITION, hint=_UPGRADE)
    if not unknown:
        yield from _refused(error, ROOT)


def pod_findings(error: ApiError, task: Path, namespace: str) -> Iterator[Finding]:
    """Yield why the API server refuses the pods of a task."""
    template = task / "template"
    refusal = read_refusal(str(error), namespace)
    if refusal is None:
        yield from _refused(error, template)
        return
    subject = next((each for each in refusal.evidence if each.kind in _FIELDS), None)
    hint = _hint(refusal)
    if subject is None:
        yield Finding(template / "spec", refusal.message, hint=hint)
    else:
        yield Finding(template / "spec" / _FIELDS[subject.kind], _missing(subject.kind), subject.name, hint)


def _refused(error: ApiError, path: Path) -> Iterator[Finding]:
    """Yield a finding for each field that the error names, else one for the whole object."""
    causes = error.details.get("causes")
    listed = causes if isinstance(causes, list) else []
    named = [each for each in listed if isinstance(each, dict) and each.get("field")]
    for cause in named:
        where = parse_path(str(cause["field"]))
        yield Finding(Path((*path, *where)), in_words("", str(cause.get("message") or cause.get("reason") or "")))
    if not named:
        yield Finding(path, f"the API server refuses it: {in_words('', str(error))}")


def _missing(kind: str) -> str:
    return f"there is no such {kind} on this cluster"


def _hint(refusal: Refusal) -> str:
    return "; ".join(map(hint_text, refusal.hints))


def hint_text(hint: Hint) -> str:
    return hint.text if hint.command is None else f"{hint.text}: {hint.command}"
