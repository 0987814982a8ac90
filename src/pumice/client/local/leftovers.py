"""What runs leave on this machine, to be removed: old runs, unused claims, images."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.runs import settle_lost_runs
from pumice.engines.local.stored_data import StoredData, stored_images, unused_claims
from pumice.store.files.retention import FinishedRun, expired_runs, remove_runs
from pumice.store.files.run_store import RunStore
from pumice.store.settings import Retention

__all__ = ["Leftovers", "Retention", "find_leftovers"]

if TYPE_CHECKING:
    from pumice.client.local.local_backend import LocalBackend


class Leftovers(Struct, frozen=True):
    store: RunStore
    runs: Sequence[FinishedRun]
    others: Sequence[StoredData]

    @property
    def names(self) -> list[str]:
        return [*(each.run.ref for each in self.runs), *(f"{each.name} ({each.size})" for each in self.others)]

    async def remove(self) -> AsyncGenerator[tuple[str, str], None]:
        """Remove them; yield the name of each, and why it could not be removed."""
        for ref in remove_runs(self.store, self.runs):
            yield ref, ""
        for each in self.others:
            try:
                each.remove()
            except (OSError, ImageError) as error:
                yield each.name, str(error)
            else:
                yield each.name, ""


def find_leftovers(backend: LocalBackend, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
    store = backend.store
    settle_lost_runs(store)
    runs = expired_runs(store, retention, backend.now(), backend.namespace) if store.state.is_dir() else []
    others = unused_claims(store, backend.namespace) if claims else []
    return Leftovers(store, runs, [*others, *(stored_images(store) if images else ())])
