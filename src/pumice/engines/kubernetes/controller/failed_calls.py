"""Failed calls of the controller as errors that the status of the job shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.runtime.ports import EngineError

ATTEMPTS: Final = 4


@contextmanager
def failing(verb: str, resource: Resource, name: str) -> Iterator[None]:
    """Raise EngineError for an ApiError."""
    try:
        yield
    except ApiError as error:
        raise failed(verb, resource, name, error) from error


def failed(verb: str, resource: Resource, name: str, error: object) -> EngineError:
    reason = {"create": "FailedCreate", "delete": "FailedDelete"}.get(verb, "FailedUpdate")
    return EngineError(reason, f"could not {verb} {resource.kind} {name}: {error}")


def name_taken(kind: str, name: str) -> EngineError:
    message = f"{kind} {name} exists and does not belong to this job; remove it, or give the job another name"
    return EngineError("NameTaken", message)
