from __future__ import annotations

import json

import pytest

from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError


def _status(**fields: object) -> bytes:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure"} | fields).encode()


MEANINGS = ("already_exists", "is_conflict", "not_found", "gone", "is_forbidden", "is_invalid", "is_throttled")


@pytest.mark.parametrize(
    ("code", "reason", "meaning", "transient"),
    [
        pytest.param(409, "AlreadyExists", "already_exists", False, id="already exists"),
        pytest.param(409, "Conflict", "is_conflict", False, id="conflict"),
        pytest.param(404, "NotFound", "not_found", False, id="not found"),
        pytest.param(410, "Expired", "gone", False, id="expired"),
        pytest.param(403, "Forbidden", "is_forbidden", False, id="forbidden"),
        pytest.param(422, "Invalid", "is_invalid", False, id="invalid"),
        pytest.param(429, "TooManyRequests", "is_throttled", True, id="too many"),
        pytest.param(500, "InternalError", "", True, id="internal error"),
        pytest.param(503, "ServiceUnavailable", "", True, id="unavailable"),
        pytest.param(504, "Timeout", "", True, id="timeout"),
        pytest.param(401, "Unauthorized", "", False, id="unauthorized"),
        pytest.param(400, "BadRequest", "", False, id="bad request"),
    ],
)
def test_meaning_of_a_status(code: int, reason: str, meaning: str, transient: bool) -> None:
    error = ApiError.from_response(code, _status(reason=reason, message="said so", code=code))
    assert [name for name in MEANINGS if getattr(error, name)] == ([meaning] if meaning else [])
    assert error.is_transient == transient
    assert (error.status, error.reason, error.message, str(error)) == (code, reason, "said so", "said so")


@pytest.mark.parametrize(
    ("header", "details", "expected"),
    [
        pytest.param("3", {}, 3.0, id="header"),
        pytest.param(None, {"retryAfterSeconds": 2}, 2.0, id="details"),
        pytest.param("1", {"retryAfterSeconds": 9}, 1.0, id="the header wins"),
        pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", {"retryAfterSeconds": 4}, 4.0, id="a date is ignored"),
        pytest.param("-1", {}, None, id="negative"),
        pytest.param("inf", {}, None, id="infinite"),
        pytest.param("nan", {}, None, id="no number"),
        pytest.param(None, {}, None, id="none"),
    ],
)
def test_retry_after(header: str | None, details: dict[str, object], expected: float | None) -> None:
    assert ApiError.from_response(429, _status(details=details), header).retry_after == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"<html>bad gateway</html>", "<html>bad gateway</html>", id="HTML page"),
        pytest.param(b"x" * 5000, "x" * 200, id="long page"),
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text"),
        pytest.param(b'["no", "status"]', '["no", "status"]', id="other JSON"),
        pytest.param(b'{"message": 5}', '{"message": 5}', id="wrong types"),
    ],
)
def test_a_body_that_is_no_status_object_is_shown(body: bytes, message: str) -> None:
    error = ApiError.from_response(502, body)
    assert (error.status, error.reason, error.message) == (502, "", message)
    assert str(error) == message or message == ""


def test_an_empty_body_shows_the_status_code() -> None:
    assert str(ApiError.from_response(502, b"")) == "the API server answered 502"


def test_causes() -> None:
    details = {"causes": [{"reason": "NamespaceTerminating", "message": "x"}, "nonsense"]}
    assert ApiError.from_response(403, _status(details=details)).causes == {"NamespaceTerminating"}
    assert ApiError.from_response(403, _status(details={"causes": 5})).causes == frozenset()
    assert ApiError.from_response(403, _status()).causes == frozenset()


def test_an_unreachable_server_is_an_api_error() -> None:
    error: ApiError = UnreachableError("refused")
    assert (error.status, error.is_transient, str(error)) == (0, True, "refused")
    assert not any(getattr(error, name) for name in MEANINGS)
