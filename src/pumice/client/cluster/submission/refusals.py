"""Creates objects, and explains what an API server says about one that it does not take."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.client.cluster.api_findings import job_findings
from pumice.client.cluster.live_objects import Patience
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.job_source import JobSource
from pumice.store.run_errors import ForbiddenError, InvalidOption, RunError

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_ABOUT_THE_OBJECT: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.CONFLICT})
_MAY_CREATE: Final = "your role must allow it, and so must the quotas and policies of the namespace"


def explained(connection: Connection, error: ApiError, source: JobSource) -> RunError:
    """Return the error of a call that creates a Job, with a line of its file for each cause that the server names."""
    if error.status not in _ABOUT_THE_OBJECT:
        return refused(connection, "", error)
    found = job_findings(error)
    return InvalidOption.of(
        [Problem(_text(str(each.path), each.message), each.hint, source(each.path)) for each in found]
    )


def _text(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


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


def refused(connection: Connection, what: str, error: ApiError) -> RunError:
    """Return the error of a call that creates something: `Secret keys`."""
    message = ": ".join(filter(None, (connection.name, what, str(error))))
    if error.is_forbidden:
        return ForbiddenError(message, _MAY_CREATE)
    return InvalidOption(message) if error.status in _ABOUT_THE_OBJECT else connection.explained(error)
