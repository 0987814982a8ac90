"""Who submitted Jobs, and who the user is. A cluster is shared: a Job of another person is not changed by mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata, read_metadata
from pumice.engines.kubernetes.api.resources import JOBS, SELF_REVIEWS
from pumice.model import keys

_REVIEW: Final = msgspec.json.encode({"apiVersion": SELF_REVIEWS.api_version, "kind": SELF_REVIEWS.kind})


async def find_user_name(connection: Connection) -> str:
    """Return what the API server calls this user; empty if it does not say. Raises RunError."""
    try:
        body = await connection.client.create(SELF_REVIEWS, None, _REVIEW, attempts=3)
    except ApiError as error:
        # Before Kubernetes 1.28 there is no such review, and an administrator may forbid it.
        if error.not_found or error.is_forbidden:
            return ""
        raise connection.explained(error) from error
    status = msgspec.json.decode(body).get("status") or {}
    return str((status.get("userInfo") or {}).get("username") or "")


async def strangers(connection: Connection, runs: Sequence[RunRef]) -> Mapping[str, str]:
    """Return the people who submitted Jobs, by uid, other than this user; without those that nobody is named for."""
    submitters: dict[str, str] = {}
    for run in runs:
        raw = await connection.get(JOBS, run.namespace, run.name)
        found = ObjectMetadata() if raw is None else read_metadata(raw)
        submitter = found.annotations.get(keys.SUBMITTED_BY, "")
        if found.uid == run.uid and submitter:
            submitters[run.uid] = submitter
    if not submitters:
        return {}
    name = await find_user_name(connection)
    return {uid: submitter for uid, submitter in submitters.items() if submitter != name}
