"""The result of one check of `pumice install --check`: its state, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource

APPLY: Final = "kubectl apply --server-side --force-conflicts -f -"
APPLY_CRDS: Final = f"pumice install --crds-only | {APPLY}"
APPLY_ALL: Final = f"pumice install | {APPLY}"


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    # The check could not be made, or its result does not tell.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    subject: str
    state: State
    found: str
    hint: str = ""

    @property
    def is_ok(self) -> bool:
        return self.state is State.OK


def ok(subject: str, found: str, hint: str = "") -> CheckResult:
    return CheckResult(subject, State.OK, found, hint)


def missing(subject: str, found: str, hint: str) -> CheckResult:
    return CheckResult(subject, State.MISSING, found, hint)


async def result_of(subject: str, check: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
    """Return the result of `check`, UNKNOWN if the API server refuses a request; raise if it does not answer."""
    try:
        return await check()
    except ApiError as error:
        if error.status == 0:
            raise
        hint = "run the check as a user with more permissions"
        return CheckResult(subject, State.UNKNOWN, f"could not be checked: {error}", hint)


async def get_or_none(client: Client, resource: Resource, namespace: str | None, name: str) -> Mapping[str, Any] | None:
    try:
        raw = await client.get(resource, namespace, name)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return msgspec.json.decode(raw, type=dict[str, Any])
