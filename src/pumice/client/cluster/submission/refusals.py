"""What an API server says about an object that it does not take, in the form of findings."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pumice.client.cluster.api_findings import job_findings
from pumice.engines.kubernetes.api.errors import ApiError
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


def refused(connection: Connection, what: str, error: ApiError) -> RunError:
    """Return the error of a call that creates something: `Secret keys`."""
    message = ": ".join(filter(None, (connection.name, what, str(error))))
    if error.is_forbidden:
        return ForbiddenError(message, _MAY_CREATE)
    return InvalidOption(message) if error.status in _ABOUT_THE_OBJECT else connection.explained(error)
