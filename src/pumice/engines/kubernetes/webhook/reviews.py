"""One review: bytes from the API server in, bytes for it out, whatever they hold.

The rules are those of `admission/review.py`. Added here is what only a server must do: read hostile input, never take
down the process, say everything at once even if the schema would refuse the Job after us, and warn of fields that the
cluster's definition has dropped before we could see them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.admission import review
from pumice.admission.context import Context
from pumice.admission.portability import paths_of_field
from pumice.engines.kubernetes.webhook.schema_check import Schema, fits

_log = logging.getLogger(__name__)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NO_REVIEW: Final = f"this is no {review.KIND} of {review.API_VERSION}"


class NoReviewError(Exception):
    """What was sent is not an AdmissionReview; the message says what it lacks."""


def mutated(body: bytes, context: Context, schema: Schema) -> bytes:
    asked = _decoded(body)
    try:
        job = asked["request"].get("object")
        if isinstance(job, dict) and not fits(job, schema):
            answer = review.validate(asked, context)
            if not answer["response"]["allowed"]:
                return _encoded(answer)
        return _encoded(review.mutate(asked, context))
    except Exception:  # noqa: BLE001 - see _gave_up: one Job must not take down the webhook
        return _encoded(_gave_up(asked))


def validated(body: bytes, context: Context, dropped: tuple[str, ...]) -> bytes:
    asked = _decoded(body)
    try:
        answer = review.validate(asked, context)
        _warn_of_dropped(asked["request"], answer["response"], dropped)
        return _encoded(answer)
    except Exception:  # noqa: BLE001 - see _gave_up: one Job must not take down the webhook
        return _encoded(_gave_up(asked))


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NoReviewError(f"{_NO_REVIEW}: {error}") from error
    if not isinstance(asked, dict) or asked.get("kind") != review.KIND or asked.get("apiVersion") != review.API_VERSION:
        raise NoReviewError(_NO_REVIEW)
    request = asked.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise NoReviewError(f"{_NO_REVIEW}: it holds no request with a uid")
    return asked


def _warn_of_dropped(request: Mapping[str, Any], response: dict[str, Any], dropped: tuple[str, ...]) -> None:
    """Dropped fields never reach us, except in the copy that `kubectl apply` leaves in an annotation."""
    if not dropped or not response["allowed"]:
        return
    documents = (_as_written(request.get("object")), request.get("object"))
    lost = [field for field in dropped if any(paths_of_field(document, field) for document in documents)]
    if lost:
        warning = "this cluster's definition of a Job drops it; whoever runs the cluster should apply the output of "
        response["warnings"] = [
            *response.get("warnings", ()),
            *(f"{field}: {warning}pumice install --crds-only" for field in lost),
        ]


def _as_written(job: object) -> object:
    metadata = job.get("metadata") if isinstance(job, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(LAST_APPLIED) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return None
    try:
        written: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return written


def _gave_up(asked: Mapping[str, Any]) -> dict[str, Any]:
    request = asked["request"]
    # The Job itself is not logged: it may hold what its author told nobody else.
    _log.exception("Job %s/%s could not be judged", request.get("namespace"), request.get("name"))
    message = "pumice could not judge this Job because of a defect of its own; its log says more"
    status = {"status": "Failure", "reason": "InternalError", "code": 500, "message": message}
    response = {"uid": request["uid"], "allowed": False, "status": status}
    return {"apiVersion": review.API_VERSION, "kind": review.KIND, "response": response}


def _encoded(answer: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(answer)
