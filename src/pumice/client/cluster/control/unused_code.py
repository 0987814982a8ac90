"""Code that `--code` sent to a cluster, and that no Job names any more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec import Struct

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.submission.code_secrets import StoredPart, stored_parts
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import JOBS, SECRETS
from pumice.model import keys
from pumice.model.units import size_text


class UnusedCode(Struct, frozen=True):
    """Bundles by namespace and id, each with its Secrets."""

    connection: Connection
    bundles: dict[tuple[str, str], list[StoredPart]]

    @property
    def names(self) -> Sequence[str]:
        return [
            f"{self._name(key)} ({size_text(sum(each.size for each in parts))})" for key, parts in self.bundles.items()
        ]

    async def remove(self) -> AsyncGenerator[tuple[str, str], None]:
        """A Secret that changed since it was read stays: a Job may have got it meanwhile."""
        for key, parts in self.bundles.items():
            why, delete = "", self.connection.client.delete
            for part in parts:
                try:
                    await delete(
                        SECRETS, part.namespace, part.name, uid=part.uid, resource_version=part.version, attempts=3
                    )
                except ApiError as error:
                    if not error.not_found:
                        why = "it is in use again" if error.is_conflict else str(error)
            yield self._name(key), why

    def _name(self, key: tuple[str, str]) -> str:
        namespace, code = key
        return f"code {code} on {self.connection.name}/{namespace}"


async def find_unused_code(connection: Connection) -> UnusedCode:
    """Raises RunError: Denied without the right to list Secrets."""
    used: set[tuple[str, str]] = set()
    uids: set[str] = set()
    with connection.explaining():
        # Secrets first: a Job that is created meanwhile is seen, and so is the code that it names.
        stored = await stored_parts(connection, connection.namespace)
        pages = connection.client.list_pages(JOBS, connection.namespace or None, metadata_only=True, attempts=3)
        async for items, _ in pages:
            for metadata in (msgspec.json.decode(raw)["metadata"] for raw in items):
                used.add((metadata["namespace"], (metadata.get("annotations") or {}).get(keys.CODE, "")))
                uids.add(metadata["uid"])
    bundles: dict[tuple[str, str], list[StoredPart]] = {}
    for part in stored:
        is_used = (part.namespace, part.sha256) in used or uids & {*part.owners}
        if not is_used and not part.is_deleting and part.sha256.startswith(part.id):
            bundles.setdefault((part.namespace, part.id), []).append(part)
    return UnusedCode(connection, bundles)
