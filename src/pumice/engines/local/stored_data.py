"""The directories of claims and the images that runs leave behind: listed, and removed when the user asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from msgspec import Struct

from pumice.engines.local.images.names import familiar
from pumice.engines.local.images.store import ImageStore
from pumice.engines.local.volumes.claims import claim_paths
from pumice.model.units import size_text
from pumice.store.disk_use import measure
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_store import RunStore, StoredRun


class StoredData(Struct, frozen=True):
    name: str
    directory: Path
    remove: Callable[[], None]  # raises OSError, and ImageError for an image that a run uses

    @property
    def size(self) -> str:
        return size_text(measure([self.directory], Path(), []).claims)


def claims_of(run: StoredRun, store: RunStore) -> list[StoredData]:
    """Return the claims of a run that exist, and that no active run uses."""
    return _unused(_paths(run, store), store)


def unused_claims(store: RunStore, namespace: str = "") -> list[StoredData]:
    """Return all claims that no active run uses; none if this version cannot read which ones a run uses."""
    if not all(run.has_our_format for run in store.active_runs()):
        return []
    return _unused(sorted(store.state.glob(f"claims/{namespace or '*'}/*")), store)


def stored_images(store: RunStore) -> list[StoredData]:
    images = ImageStore(store.state / "images")
    return [
        StoredData(f"image {familiar(each.name)}", each.root, partial(images.remove, each.name))
        for each in images.images()
        if each.digest
    ]


def _unused(claims: Iterable[Path], store: RunStore) -> list[StoredData]:
    used = {path for run in store.active_runs() for path in _paths(run, store)}
    return [
        StoredData(f"claim {path.parent.name}/{path.name}", path, partial(remove_tree, path))
        for path in claims
        if path.is_dir() and path not in used
    ]


def _paths(run: StoredRun, store: RunStore) -> Iterable[Path]:
    return claim_paths(run.written_job(), run.record.documents, store.state).values()
