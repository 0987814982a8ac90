"""What an API server says about an object that it does not take: findings at the paths of the Job file, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import msgspec

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import Patience
from pumice.diagnosis.cluster.admission_errors import read_refusal
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import hint_text
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.model.findings import ROOT, Finding, Path
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.job_source import JobSource
from pumice.store.run_errors import ForbiddenError, InvalidOption, RunError

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]+)"')
_OLD_DEFINITION: Final = "the definition of Jobs on this cluster has no such field"
_UPGRADE: Final = "leave it out, or ask an administrator to apply what pumice install --crds-only prints"
# The field of a pod that names what is missing.
_FIELDS: Final = {"ServiceAccount": "serviceAccountName", "PriorityClass": "priorityClassName"}
_ABOUT_THE_OBJECT: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.CONFLICT})
_MAY_CREATE: Final = "your role must allow it, and so must the quotas and policies of the namespace"


def job_findings(error: ApiError) -> Iterator[Finding]:
    """Yield why the API server refuses a Job."""
    unknown = _UNKNOWN_FIELD.findall(str(error)) if error.status == HTTPStatus.BAD_REQUEST else []
    for field in unknown:
        yield Finding(_parse_path(field), _OLD_DEFINITION, hint=_UPGRADE)
    if not unknown:
        yield from _causes(error, ROOT)


def pod_findings(error: ApiError, task: Path, namespace: str) -> Iterator[Finding]:
    """Yield why the API server refuses the pods of a task."""
    template = task / "template"
    refusal = read_refusal(str(error), namespace)
    if refusal is None:
        yield from _causes(error, template)
        return
    subject = next((each for each in refusal.evidence if each.kind in _FIELDS), None)
    hint = "; ".join(map(hint_text, refusal.hints))
    if subject is None:
        yield Finding(template / "spec", refusal.message, hint=hint)
    else:
        message = f"there is no such {subject.kind} on this cluster"
        yield Finding(template / "spec" / _FIELDS[subject.kind], message, subject.name, hint)


def _causes(error: ApiError, path: Path) -> Iterator[Finding]:
    """Yield a finding for each field that the error names, else one for the whole object."""
    causes = error.details.get("causes")
    listed = causes if isinstance(causes, list) else []
    named = [each for each in listed if isinstance(each, dict) and each.get("field")]
    for cause in named:
        where = _parse_path(str(cause["field"]))
        yield Finding(Path((*path, *where)), in_words("", str(cause.get("message") or cause.get("reason") or "")))
    if not named:
        yield Finding(path, f"the API server refuses it: {in_words('', str(error))}")


def _parse_path(text: str) -> Path:
    """Return the path that an API server writes: `spec.tasks[0].template.metadata.labels[app.kubernetes.io/name]`."""
    steps = (match[1] if match[1] is not None else match[2] for match in _STEP.finditer(text))
    return Path(int(step) if step.isdigit() else step for step in steps)


def explained(connection: Connection, error: ApiError, source: JobSource) -> RunError:
    """Return the error of a call that creates a Job, with a line of its file for each cause that the server names."""
    if error.status not in _ABOUT_THE_OBJECT:
        return refused(connection, "", error)
    found = job_findings(error)
    where = ((f"{each.path}: " if each.path else "", each) for each in found)
    return InvalidOption.of([Problem(text + each.message, each.hint, source(each.path)) for text, each in where])


def refused(connection: Connection, what: str, error: ApiError) -> RunError:
    """Return the error of a call that creates something: `Secret keys`."""
    message = ": ".join(filter(None, (connection.name, what, str(error))))
    if error.is_forbidden:
        return ForbiddenError(message, _MAY_CREATE)
    return InvalidOption(message) if error.status in _ABOUT_THE_OBJECT else connection.explained(error)


async def create_object(
    connection: Connection, resource: Resource, manifest: Manifest, what: str, **options: bool
) -> None:
    """Create an object, over lost connections; one that exists is good. `what` begins an error. Raises RunError."""
    patience, body = Patience(connection), msgspec.json.encode(manifest)
    while True:
        try:
            await connection.client.create(resource, manifest["metadata"]["namespace"], body, **options)
        except ApiError as error:
            if error.already_exists:
                # Somebody else was faster, or an answer was lost.
                return
            if not error.is_transient:
                raise refused(connection, what, error) from error
            await patience.after(error)
        else:
            patience.succeeded()
            return
