"""Asks the API server whether this user may do something."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.resources import ACCESS_REVIEWS


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def is_allowed(client: Client, attributes: Mapping[str, str], *, attempts: int = 3) -> bool:
    """`attributes`: namespace, verb, group, resource and others of a SelfSubjectAccessReview. Raises ApiError."""
    kind = ACCESS_REVIEWS
    review = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(kind, None, msgspec.json.encode(review), attempts=attempts)
    return msgspec.json.decode(answer, type=_Review).status.allowed
