"""Finds the images of a run: paths given by the user, then the store, else the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import normalised
from pumice.engines.local.images.store import Image, ImageStore
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.store.settings import Settings

_Value = TypeVar("_Value")


def image_names(manifests: Sequence[Manifest]) -> set[str]:
    """Return the names of images as the pods spell them."""
    return {str(each.get("image") or "") for manifest in manifests for each in all_containers(manifest["spec"])} - {""}


def with_names_in_use(settings: Settings, used: Iterable[str]) -> Settings:
    """Key settings of images by the names that the pods use: `x` and `docker.io/library/x` are the same image."""

    def renamed(table: Mapping[str, _Value]) -> dict[str, _Value]:
        known = {normalised(name): value for name, value in table.items()}
        return {name: known[normalised(name)] for name in used if normalised(name) in known}

    return replace(
        settings,
        images=renamed(settings.images),
        entrypoints=renamed(settings.entrypoints),
        programs=renamed(settings.programs),
        files=renamed(settings.files),
    )


class RunImages(Struct):
    """Images in use are locked while the job runs, so that they are not removed."""

    store: ImageStore
    given: Mapping[str, Path]  # by the names that the pods use, to paths
    held: ExitStack
    warn: Callable[[str], None]
    note: Callable[[str], None] = lambda _message: None  # progress messages
    # With errors, so that a bad archive is read once, not once per pod.
    _known: dict[str, Image | ImageError | None] = field(default_factory=dict)

    def of(self, name: str) -> Image | None:
        """Return the image; None if the host serves as image. Raises ImageError."""
        if name and name not in self._known:
            try:
                self._known[name] = self._find(name)
            except ImageError as error:
                self._known[name] = error
        found = self._known.get(name)
        if isinstance(found, ImageError):
            raise found
        return found

    def _find(self, name: str) -> Image | None:
        path = self.given.get(name)
        if path is None:
            image = self.store.find(name)
        else:
            image = self.store.obtain(name, path, lambda message: self.note(f"image {name}: {message}"))
        if image is not None:
            self.held.enter_context(self.store.held(image))
            for warning in image.warnings:
                self.warn(f"image {name}: {warning}")
            # Read once: a pod may put a link in the place of a directory that it can write to.
            image = replace(image, root=Path(os.path.realpath(image.root)))
        return image

    def text(self, manifests: Sequence[Manifest]) -> str:
        """Describe for the plan which names are images, and that the host serves for the others."""
        names = image_names(manifests)
        mapped = sorted(name for name in names if isinstance(self._known.get(name), Image))
        if not mapped:
            return "host (no registry)"
        return ", ".join(mapped) + ("" if len(mapped) == len(names) else "; the others: host (no registry)")
