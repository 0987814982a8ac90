"""AdmissionReview (admission.k8s.io/v1): the same rules for requests of an API server."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pumice.admission.admit import admit
from pumice.admission.context import Context
from pumice.admission.defaults import patch, with_defaults, with_first_min_available
from pumice.admission.quantity_patch import as_text
from pumice.admission.size_limits import check_size
from pumice.admission.updates import check_update
from pumice.model.codec import decode
from pumice.model.findings import ROOT, Finding
from pumice.model.job import first_min_available
from pumice.model.scalars import plain_text
from pumice.model.text import printable
from pumice.model.vocabulary import GROUP_VERSION
from pumice.model.vocabulary import KIND as JOB_KIND

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
UNPROCESSABLE: Final = 422
# An API server truncates longer warnings.
LONGEST_WARNING: Final = 250
# Bounds of the response, however large the Job is.
MOST_ERRORS: Final = 50
LONGEST_ERROR: Final = 1000
LONGEST_VALUE: Final = 100

Review = dict[str, Any]


def mutate(review: Mapping[str, Any], context: Context) -> Review:
    """Apply defaults to a new Job; idempotent. `validate` reports errors."""
    request = _request(review)
    response: Review = {"uid": request.get("uid", ""), "allowed": True}
    raw = request.get("object")
    is_new = request.get("operation") == "CREATE"
    if is_new and isinstance(raw, dict) and isinstance(raw.get("spec"), dict) and not check_size(raw):
        decoded = decode(raw, context.kubernetes)
        operations = patch(raw, decoded.job, with_defaults(decoded.job, context.registry)) if decoded.complete else []
        operations += as_text(raw, context.kubernetes)
        if operations:
            encoded = base64.b64encode(msgspec.json.encode(operations)).decode()
            response |= {"patchType": "JSONPatch", "patch": encoded}
    return _reviewed(response)


def validate(review: Mapping[str, Any], context: Context) -> Review:
    """Allow or deny a Job that is created or updated, with every reason."""
    request = _request(review)
    uid, operation, raw = request.get("uid", ""), request.get("operation"), request.get("object")
    if operation not in ("CREATE", "UPDATE"):
        # Allow other operations, even if the webhook is registered for them.
        return _reviewed({"uid": uid, "allowed": True})
    if not isinstance(raw, dict):
        return _reviewed(_denied(request, [Finding(ROOT, "the request contains no Job")]))
    findings = (
        admit(raw, context).findings if operation == "CREATE" else _updated(raw, request.get("oldObject"), context)
    )
    errors = [finding for finding in findings if finding.is_error]
    response = _denied(request, errors) if errors else {"uid": uid, "allowed": True}
    warnings = [printable(_sentence(finding), LONGEST_WARNING) for finding in findings if not finding.is_error]
    warnings = warnings[:MOST_ERRORS]
    return _reviewed(response | ({"warnings": warnings} if warnings else {}))


def _request(review: Mapping[str, Any]) -> Mapping[str, Any]:
    request = review.get("request")
    return request if isinstance(request, Mapping) else {}


def _updated(raw: dict[str, Any], old: object, context: Context) -> Iterable[Finding]:
    if not isinstance(old, dict):
        return [Finding(ROOT, "the request contains no old object")]
    if check_size(raw) or check_size(old):
        # A Job that is too large may be stored already: others can still remove its finalizers, but not change it.
        return [] if raw.get("spec") == old.get("spec") else check_size(raw)
    before, after = decode(old, context.kubernetes), decode(raw, context.kubernetes)
    # Errors that the old object has already are allowed, or no client could remove a finalizer. Defaults are not a
    # change: `kubectl replace` sends the file as written.
    new = [finding for finding in after.findings if finding not in before.findings]
    first = with_first_min_available(before.job, first_min_available(_recorded(old)))
    was = with_defaults(first, context.registry)
    now = with_defaults(with_first_min_available(after.job, was.all_min_available), context.registry)
    return [*new, *check_update(was, now)]


def _recorded(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return what the controller keeps in the status of a Job."""
    status = raw.get("status")
    entries = status.get("controlledResources") if isinstance(status, Mapping) else None
    return {key: text for key, text in entries.items() if isinstance(text, str)} if isinstance(entries, Mapping) else {}


def _sentence(finding: Finding) -> str:
    path = f"{finding.path}: " if finding.path else ""
    return f"{path}{_without_path(finding)}"


def _without_path(finding: Finding) -> str:
    value = ""
    if isinstance(finding.value, str | int | float):
        value = f"{printable(plain_text(finding.value), LONGEST_VALUE)}: "
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{value}{finding.message}{hint}"


def _denied(request: Mapping[str, Any], errors: list[Finding]) -> Review:
    """Return the errors as one message and as causes, like the API server, for clients that show a list."""
    shown = errors[:MOST_ERRORS]
    more = f"; and {len(errors) - MOST_ERRORS} more" if len(errors) > MOST_ERRORS else ""
    status = {
        "status": "Failure",
        "reason": "Invalid",
        "code": UNPROCESSABLE,
        "message": "; ".join(printable(_sentence(error), LONGEST_ERROR) for error in shown) + more,
        "details": {
            "group": GROUP_VERSION.partition("/")[0],
            "kind": JOB_KIND,
            "name": _name(request),
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": printable(str(error.path), LONGEST_ERROR),
                    "message": printable(_without_path(error), LONGEST_ERROR),
                }
                for error in shown
            ],
        },
    }
    return {"uid": request.get("uid", ""), "allowed": False, "status": status}


def _name(request: Mapping[str, Any]) -> str:
    """Return the name of the Job; the request does not contain a generated name yet."""
    raw = request.get("object")
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    names = metadata if isinstance(metadata, Mapping) else {}
    return str(request.get("name") or names.get("name") or names.get("generateName") or "")


def _reviewed(response: Review) -> Review:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
