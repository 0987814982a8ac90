"""`--timeout`: a field of the Job where the cluster knows it; elsewhere the client keeps the time while it follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model.job import Manifest

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_FIELD: Final = "activeDeadlineSeconds"
KEPT_HERE: Final = (
    "Jobs of this cluster have no activeDeadlineSeconds: --timeout ends the Job only while this command follows it"
)


async def knows_deadline(connection: Connection) -> bool:
    """Return whether the definition of Jobs there has the field. Who may not know gets False."""
    path = f"/openapi/v3/apis/{JOBS.api_version}"
    try:
        found = msgspec.json.decode(await connection.client.request("GET", path, attempts=3))
    except (ApiError, msgspec.MsgspecError):
        return False
    schemas: dict[str, Any] = (found.get("components") or {}).get("schemas") or {}
    return any(_FIELD in _spec_fields(schema) for name, schema in schemas.items() if name.endswith(f".{JOBS.kind}"))


def _spec_fields(schema: dict[str, Any]) -> dict[str, Any]:
    spec = (schema.get("properties") or {}).get("spec") or {}
    fields: dict[str, Any] = spec.get("properties") or {}
    return fields


def with_deadline(manifest: Manifest, seconds: float) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], _FIELD: max(1, math.ceil(seconds))}}
