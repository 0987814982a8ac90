"""The images of a run: what the user maps their names to, then the store, else the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import normalised
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.preflight import every_container
from pumice.model.job import Manifest


@dataclass(slots=True)
class RunImages:
    """Each image is held for as long as the job runs, so that nobody removes it meanwhile."""

    store: ImageStore
    given: Mapping[str, Path]  # by name
    held: ExitStack
    warn: Callable[[str], None]
    _known: dict[str, Image | None] = field(default_factory=dict)
    _faults: dict[str, ImageError] = field(default_factory=dict)  # a bad archive is not read once for every pod

    def of(self, name: str) -> Image | None:
        """None where the host serves. Raises ImageError."""
        if name in self._faults:
            raise self._faults[name]
        if name and name not in self._known:
            try:
                self._known[name] = self._found(name)
            except ImageError as error:
                self._faults[name] = error
                raise
        return self._known.get(name)

    def _found(self, name: str) -> Image | None:
        path = {normalised(known): path for known, path in self.given.items()}.get(normalised(name))
        image = self.store.find(name) if path is None else self.store.obtain(name, path, self.warn)
        if image is not None:
            self.held.enter_context(self.store.held(image))
        return image

    def text(self, manifests: Sequence[Manifest]) -> str:
        """For the plan: which names are images, and what serves for the others."""
        names = {str(each.get("image") or "") for manifest in manifests for each in every_container(manifest)}
        mapped = sorted(name for name in names if self._known.get(name) is not None)
        if not mapped:
            return "host (no registry)"
        return ", ".join(mapped) + ("" if len(mapped) == len(names) else "; the others: host (no registry)")
