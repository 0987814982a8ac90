"""The directories of claims and the images that runs leave behind: listed, and removed when the user asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pumice.engines.local.images.names import familiar
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.volumes.claims import claim_paths
from pumice.model.units import size_text
from pumice.store.disk_use import measure
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_store import RunStore, StoredRun


class Claim(Struct, frozen=True):
    directory: Path

    @property
    def name(self) -> str:
        return f"claim {self.directory.parent.name}/{self.directory.name}"

    @property
    def size(self) -> str:
        return size_text(measure([self.directory], Path(), []).claims)

    def remove(self) -> None:
        """Raises OSError."""
        remove_tree(self.directory)


class StoredImage(Struct, frozen=True):
    store: ImageStore
    image: Image

    @property
    def name(self) -> str:
        return f"image {familiar(self.image.name)}"

    @property
    def size(self) -> str:
        return size_text(measure([self.image.root], Path(), []).claims)

    def remove(self) -> None:
        """Raises ImageError if a run uses it."""
        self.store.remove(self.image.name)


def claims_of(run: StoredRun, store: RunStore) -> list[Claim]:
    """Return the claims of a run that exist, and that no active run uses."""
    used = _in_use(store)
    return [Claim(path) for path in _paths(run, store) if path.is_dir() and path not in used]


def unused_claims(store: RunStore, namespace: str = "") -> list[Claim]:
    """Return all claims that no active run uses; none if this version cannot read which ones a run uses."""
    if not all(run.has_our_format for run in store.active_runs()):
        return []
    used = _in_use(store)
    found = sorted(store.state.glob(f"claims/{namespace or '*'}/*"))
    return [Claim(path) for path in found if path.is_dir() and path not in used]


def stored_images(store: RunStore) -> list[StoredImage]:
    images = ImageStore(store.state / "images")
    return [StoredImage(images, image) for image in images.images() if image.digest]


def _in_use(store: RunStore) -> set[Path]:
    return {path for run in store.active_runs() for path in _paths(run, store)}


def _paths(run: StoredRun, store: RunStore) -> Iterator[Path]:
    yield from claim_paths(run.written_job(), run.record.documents, store.state).values()
