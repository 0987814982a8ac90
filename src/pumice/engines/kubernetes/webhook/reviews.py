"""Answers one AdmissionReview, bytes in and bytes out, and says whether the Job is allowed.

`admission/review.py` has the rules. A server must also survive hostile input and defects, report all findings even if
the schema would refuse the Job first, and warn of fields that the API server dropped before the review.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pumice.admission import review
from pumice.admission.context import Context
from pumice.admission.portability import paths_of_field
from pumice.model import keys
from pumice.model.pumice_error import PumiceError

_log = logging.getLogger(__name__)

Answer = tuple[bytes, bool]
_NO_REVIEW: Final = f"not an {review.KIND} of {review.API_VERSION}"


Schema = Mapping[str, Any]


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
_LIMITS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "enum": lambda value, words: value in words,
    "pattern": lambda value, pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
}


class MalformedReviewError(PumiceError):
    """The request is not an AdmissionReview."""


def mutated(body: bytes, context: Context, schema: Schema) -> Answer:
    sent = _decoded(body)
    try:
        job = sent["request"].get("object")
        if isinstance(job, dict) and not fits(job, schema):
            answer = review.validate(sent, context)
            if not answer["response"]["allowed"]:
                return _encoded(answer)
        return _encoded(review.mutate(sent, context))
    except Exception:  # noqa: BLE001 - see _internal_error: one Job must not take down the webhook
        return _encoded(_internal_error(sent))


def validated(body: bytes, context: Context, dropped: tuple[str, ...]) -> Answer:
    sent = _decoded(body)
    try:
        answer = review.validate(sent, context)
        _warn_of_dropped(sent["request"], answer["response"], dropped)
        return _encoded(answer)
    except Exception:  # noqa: BLE001 - see _internal_error: one Job must not take down the webhook
        return _encoded(_internal_error(sent))


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        sent = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReviewError(f"{_NO_REVIEW}: {error}") from error
    if not isinstance(sent, dict) or sent.get("kind") != review.KIND or sent.get("apiVersion") != review.API_VERSION:
        raise MalformedReviewError(_NO_REVIEW)
    request = sent.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise MalformedReviewError(f"{_NO_REVIEW}: it has no request with a uid")
    return sent


def _warn_of_dropped(request: Mapping[str, Any], response: dict[str, Any], dropped: tuple[str, ...]) -> None:
    """Add warnings for dropped fields, which only the annotation of `kubectl apply` still shows."""
    if not dropped or not response["allowed"]:
        return
    documents = (_as_written(request.get("object")), request.get("object"))
    lost = [field for field in dropped if any(paths_of_field(document, field) for document in documents)]
    if lost:
        warning = "the definition of Job in this cluster drops it; an administrator should apply the output of "
        warnings = [f"{field}: {warning}pumice install --crds-only" for field in lost]
        response["warnings"] = [*response.get("warnings", ()), *warnings]


def _as_written(job: object) -> object:
    metadata = job.get("metadata") if isinstance(job, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(keys.LAST_APPLIED) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return None
    try:
        written: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return written


def _internal_error(sent: Mapping[str, Any]) -> dict[str, Any]:
    request = sent["request"]
    # Do not log the Job: it may contain secrets.
    _log.exception("internal error in the review of Job %s/%s", request.get("namespace"), request.get("name"))
    message = "internal error of pumice in the review of this Job; see the log of the webhook"
    status = {"status": "Failure", "reason": "InternalError", "code": 500, "message": message}
    response = {"uid": request["uid"], "allowed": False, "status": status}
    return {"apiVersion": review.API_VERSION, "kind": review.KIND, "response": response}


def _encoded(answer: Mapping[str, Any]) -> Answer:
    return msgspec.json.encode(answer), answer["response"]["allowed"]


def fits(value: Any, schema: Schema) -> bool:
    """Predict whether the API server will accept a value by its schema.

    The server checks the schema after the mutating and before the validating webhooks, and then reports schema errors
    only. If the mutating webhook knows that the schema will reject a Job, it can report all findings at once instead.
    """
    if value is None:
        return bool(schema.get("nullable"))
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            return False
    elif not _is(value, schema.get("type")):
        return False
    if not all(allowed(value, schema[name]) for name, allowed in _LIMITS.items() if name in schema):
        return False
    if isinstance(value, dict):
        return _object_fits(value, schema)
    items = schema.get("items")
    return not isinstance(value, list) or items is None or all(fits(item, items) for item in value)


def _object_fits(value: Mapping[str, Any], schema: Schema) -> bool:
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        # The API server drops unknown fields before it calls webhooks.
        inner = properties.get(key, others)
        if isinstance(inner, Mapping) and not (item is None and "default" in inner) and not fits(item, inner):
            return False
    return all(key in value for key in schema.get("required", ()))


def _is(value: object, type_: str | None) -> bool:
    if type_ is None:
        return True
    if isinstance(value, bool):
        return type_ == "boolean"
    if isinstance(value, float) and type_ == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[type_])
