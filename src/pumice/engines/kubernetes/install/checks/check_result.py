"""What `pumice install --check` finds: one line a subject, and what to do where something lacks."""

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
    GOOD = "good"
    LACKING = "lacking"
    # It could not be looked at.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    subject: str
    state: State
    found: str
    todo: str = ""

    @property
    def is_good(self) -> bool:
        return self.state is State.GOOD


def good(subject: str, found: str, todo: str = "") -> Check:
    return Check(subject, State.GOOD, found, todo)


def lacking(subject: str, found: str, todo: str) -> Check:
    return Check(subject, State.LACKING, found, todo)


async def looked_at(subject: str, look: Callable[[], Awaitable[Check]]) -> Check:
    """What `look` finds, or why it could not look. No answer at all is for the caller."""
    try:
        return await look()
    except ApiError as error:
        if error.status == 0:
            raise
        return Check(subject, State.UNKNOWN, f"could not be looked at: {error}", "ask as somebody who may see it")


async def found(client: Client, resource: Resource, namespace: str | None, name: str) -> Mapping[str, Any] | None:
    """An object, or None if there is none of that name."""
    try:
        raw = await client.get(resource, namespace, name)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    there: Mapping[str, Any] = msgspec.json.decode(raw)
    return there
