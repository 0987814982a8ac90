"""The images that are ready on this machine: `$XDG_STATE_HOME/pumice/images`, one directory an image, and their names.

Whoever changes the store holds its lock, which the kernel takes back if that process dies. Readers need none: names
and images appear by renaming. A job holds a lock of its own on each image that it runs, so that nobody removes it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.images.blobs import ArchiveBlobs, DirectoryBlobs
from pumice.engines.local.images.config import ImageConfig, from_json
from pumice.engines.local.images.errors import ImageError, from_os_error
from pumice.engines.local.images.names import familiar, normalised
from pumice.engines.local.images.sources import find_image
from pumice.engines.local.images.unpacking import RECORD, ROOT, Tell, unpack
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.engines.local.state.settings import state_directory

_NAMES: Final = "names.json"
_LOCK: Final = ".lock"
_HELD: Final = "in-use"
_PARTIAL: Final = ".partial-"
_REMOVED: Final = ".removed-"


@dataclass(frozen=True, slots=True)
class Image:
    """An image that can be run. One that is a directory of the user has no digest."""

    name: str
    root: Path
    source: str  # what it was made of
    digest: str = ""
    config: ImageConfig = field(default_factory=ImageConfig)
    size: int = 0
    warnings: tuple[str, ...] = ()


def images_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a user's images are. Raises NoStateError."""
    return state_directory(environ) / "images"


class ImageStore:
    def __init__(self, place: Path) -> None:
        self._place = place

    def images(self) -> list[Image]:
        """All named images that are still there, by name."""
        found = (self._image(name, entry) for name, entry in sorted(self._names().items()))
        return [image for image in found if image is not None]

    def find(self, name: str) -> Image | None:
        full = normalised(name)
        entry = self._names().get(full)
        return None if entry is None else self._image(full, entry)

    def add(self, name: str, path: Path, tell: Tell) -> Image:
        """Make an archive or directory known under a name; an archive is unpacked, unless it has been."""
        full, path = normalised(name), path.absolute()
        with _about(path), _os_errors(str(path)), self._locked(tell):
            entry = self._prepared(full, path, tell)
            self._write_names({**self._names(), full: entry})
        image = self._image(full, entry)
        if image is None:
            raise ImageError(f"{path}: is gone")
        return image

    def obtain(self, name: str, path: Path, tell: Tell) -> Image:
        """The image for one run: a plain directory is used as it is and not remembered."""
        with _os_errors(str(path)):
            is_plain = path.is_dir() and not _is_layout(path)
        if is_plain:
            return Image(normalised(name), path.absolute(), str(path.absolute()))
        return self.add(name, path, tell)

    def remove(self, name: str) -> None:
        """Forget a name, and remove the image if it has no other. A directory of the user is left alone."""
        full = normalised(name)
        with _os_errors(familiar(full)), self._locked(lambda _: None):
            names = self._names()
            entry = names.pop(full, None)
            if entry is None:
                raise ImageError(
                    f"{familiar(full)}: there is no such image", "`pumice image list` shows those there are"
                )
            digest = entry.get("digest")
            if digest and all(other.get("digest") != digest for other in names.values()):
                self._drop(digest, full)
            self._write_names(names)

    @contextmanager
    def held(self, image: Image) -> Iterator[None]:
        """Keep an image from being removed for as long as it is used."""
        if not image.digest:
            yield
            return
        with _os_errors(familiar(image.name)):
            file = (self._directory(image.digest) / _HELD).open("a")
        with file:
            fcntl.flock(file, fcntl.LOCK_SH)
            if not image.root.is_dir():
                raise ImageError(f"{familiar(image.name)}: was removed just now")
            yield

    def _prepared(self, full: str, path: Path, tell: Tell) -> dict[str, Any]:
        """The entry for a name; when this returns, its image is there."""
        if path.is_dir() and not _is_layout(path):
            return {"directory": str(path)}
        stamp = _stamp(path)
        known = self._names().get(full) or {}
        if stamp and known.get("stamp") == stamp and self._record(str(known.get("digest"))) is not None:
            return known
        with closing(DirectoryBlobs(path) if path.is_dir() else ArchiveBlobs(path, self._place)) as blobs:
            source = find_image(blobs, full)
            digest = source.digest.removeprefix("sha256:")
            self._sweep(digest)
            if self._record(digest) is None:
                unpack(blobs, source, self._directory(digest), self._place / f"{_PARTIAL}{digest}", tell)
        return {"digest": digest, "source": str(path), "stamp": stamp}

    def _sweep(self, wanted: str) -> None:
        """Remove what was left over by processes that died, except what is about to be taken up again."""
        for path in self._place.glob(".*-*"):
            if path.name.startswith((_PARTIAL, _REMOVED)) and path.name != f"{_PARTIAL}{wanted}":
                remove_tree(path)
        if self._record(wanted) is None:
            remove_tree(self._directory(wanted))

    def _drop(self, digest: str, name: str) -> None:
        directory = self._directory(digest)
        removed = self._place / f"{_REMOVED}{digest}"
        with suppress(FileNotFoundError), (directory / _HELD).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ImageError(f"{familiar(name)}: a job that runs now uses it", "wait for it, or end it") from None
            remove_tree(removed)
            directory.rename(removed)
        remove_tree(removed)

    def _image(self, name: str, entry: Mapping[str, Any]) -> Image | None:
        if directory := entry.get("directory"):
            return Image(name, Path(directory), directory) if Path(directory).is_dir() else None
        digest = str(entry.get("digest"))
        record = self._record(digest)
        if record is None:
            return None
        return Image(
            name=name,
            root=self._directory(digest) / ROOT,
            source=str(entry.get("source")),
            digest=f"sha256:{digest}",
            config=from_json(record["config"]),
            size=record["size"],
            warnings=tuple(record["warnings"]),
        )

    def _record(self, digest: str) -> Mapping[str, Any] | None:
        """What is written beside an image that is complete."""
        found = _read_json(self._directory(digest) / RECORD)
        return found if "config" in found else None

    def _directory(self, digest: str) -> Path:
        return self._place / digest.removeprefix("sha256:")

    def _names(self) -> dict[str, dict[str, Any]]:
        names: dict[str, dict[str, Any]] = _read_json(self._place / _NAMES)
        return names

    def _write_names(self, names: Mapping[str, Any]) -> None:
        fresh = self._place / f"{_NAMES}.new"
        fresh.write_text(json.dumps(names, indent=1))
        fresh.replace(self._place / _NAMES)

    @contextmanager
    def _locked(self, tell: Tell) -> Iterator[None]:
        self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Whatever an image holds (setuid programs, say), other users have no way to it.
        self._place.chmod(0o700)
        with (self._place / _LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell("waiting for another pumice that changes the images")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """What is wrong with an image is wrong with this file."""
    try:
        yield
    except ImageError as error:
        known = error.message.startswith(str(path))
        raise ImageError(error.message if known else f"{path}: {error.message}", error.hint) from None


@contextmanager
def _os_errors(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(where, error) from None


def _is_layout(path: Path) -> bool:
    """Whether a directory holds an image in pieces rather than a file system."""
    if (path / "oci-layout").is_file():
        return True
    manifest = _read_json(path / "manifest.json", list)
    return bool(manifest) and isinstance(manifest[0], dict) and "Layers" in manifest[0]


def _stamp(path: Path) -> list[int]:
    """What changes when a file does; nothing for a directory, whose files may change unseen."""
    found = path.stat()
    return [] if path.is_dir() else [found.st_size, found.st_mtime_ns, found.st_ino]


def _read_json(path: Path, kind: type = dict) -> Any:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, kind):
            return found
    return kind()
