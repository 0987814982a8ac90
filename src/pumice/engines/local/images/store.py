"""The store of unpacked images: `$XDG_STATE_HOME/pumice/images`, one directory per image, and their names.

A process that changes the store holds its lock, which the kernel releases if the process dies. Readers need no lock:
names and images appear by renaming. A job also locks each image that it uses, so that it is not removed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pumice.engines.local.images.blobs import ArchiveBlobs, Blobs, Bytes, DirectoryBlobs, plain_file, spooled
from pumice.engines.local.images.errors import ImageError, from_os_error
from pumice.engines.local.images.layers import RECORD, ROOT, Report, unpack
from pumice.engines.local.images.names import familiar, normalised
from pumice.engines.local.images.sources import ImageConfig, find_image
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.file_lock import lock_at_once
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.state_directory import state_directory

_NAMES: Final = "names.json"
_LOCK: Final = ".lock"
_HELD: Final = "in-use"
_PARTIAL: Final = ".partial-"
_REMOVED: Final = ".removed-"


class Image(Struct, frozen=True):
    """An image that can be run. A directory of the user has no digest."""

    name: str
    root: Path
    source: str  # the archive or directory it comes from
    digest: str = ""
    config: ImageConfig = field(default_factory=ImageConfig)
    size: int = 0
    warnings: tuple[str, ...] = ()


def images_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the user's images. Raises InvalidOption."""
    return state_directory(environ) / "images"


class ImageStore:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def images(self) -> list[Image]:
        """Return all images that still exist, by name."""
        found = (self._image(name, entry) for name, entry in sorted(self._names().items()))
        return [image for image in found if image is not None]

    def find(self, name: str) -> Image | None:
        full = normalised(name)
        entry = self._names().get(full)
        return None if entry is None else self._image(full, entry)

    def add(self, name: str, path: Path, report: Report, *, source: str = "") -> Image:
        """Add an archive or directory under a name; an archive is unpacked unless it already is.

        `source` says where a path comes from that is removed afterwards.
        """
        full, path = normalised(name), path.absolute()
        about = source or str(path)
        with _errors_about(about), self._locked(report):
            entry = self._prepared(full, path, report)
            return self._named(full, {**entry, "source": source} if source else entry, about)

    def add_stream(self, name: str, stream: Bytes, report: Report, source: str) -> Image:
        """Add an archive that can be read only once, such as a pipe."""
        full = normalised(name)
        with _errors_about(source), self._locked(report):
            with closing(ArchiveBlobs(spooled(stream, self.directory))) as blobs:
                digest = self._unpacked(blobs, full, report)
            return self._named(full, {"digest": digest, "source": source, "stamp": []}, source)

    def find_digest(self, digest: str) -> Image | None:
        """Return the image with this configuration, whatever its name; its own name is empty."""
        return self._image("", {"digest": digest.removeprefix("sha256:"), "source": ""})

    def add_name(self, name: str, digest: str, source: str) -> Image:
        """Add a name to an image that is here already."""
        entry = {"digest": digest.removeprefix("sha256:"), "source": source, "stamp": []}
        with _errors_about(source), self._locked(lambda _: None):
            return self._named(normalised(name), entry, source)

    def obtain(self, name: str, path: Path, report: Report) -> Image:
        """Return the image for one run: a plain directory is used without being added."""
        with _errors_about(str(path)):
            is_plain = path.is_dir() and not _is_layout(path)
        if is_plain:
            return Image(normalised(name), path.absolute(), str(path.absolute()))
        return self.add(name, path, report)

    def remove(self, name: str) -> None:
        """Remove a name, and the image if it has no other name. A directory of the user stays."""
        full = normalised(name)
        with _errors_about(familiar(full)), self._locked(lambda _: None):
            names = self._names()
            entry = names.pop(full, None)
            if entry is None:
                raise ImageError("there is no such image", "`pumice image list` shows all images", familiar(full))
            digest = entry.get("digest")
            if digest and all(other.get("digest") != digest for other in names.values()):
                directory, removed = self._directory(digest), self.directory / f"{_REMOVED}{digest}"
                with suppress(FileNotFoundError), (directory / _HELD).open("a") as file:
                    if not lock_at_once(file):
                        raise ImageError("is used by a running job", "wait for the job, or stop it", familiar(full))
                    remove_tree(removed)
                    directory.rename(removed)
                remove_tree(removed)
            self._write_names(names)

    @contextmanager
    def held(self, image: Image) -> Iterator[None]:
        """Keep an image from being removed while it is used."""
        if not image.digest:
            yield
            return
        with _errors_about(familiar(image.name)):
            file = (self._directory(image.digest) / _HELD).open("a")
        with file:
            fcntl.flock(file, fcntl.LOCK_SH)
            if not image.root.is_dir():
                raise ImageError("was removed just now", where=familiar(image.name))
            yield

    def _named(self, full: str, entry: dict[str, Any], about: str) -> Image:
        self._write_names({**self._names(), full: entry})
        image = self._image(full, entry)
        if image is None:
            raise ImageError("has been removed", where=about)
        return image

    def _prepared(self, full: str, path: Path, report: Report) -> dict[str, Any]:
        """Return the entry for a name, after unpacking its image."""
        if path.is_dir() and not _is_layout(path):
            return {"directory": str(path)}
        # What changes when a file does; nothing for a directory, whose files may change unnoticed.
        found = path.stat()
        stamp = [] if path.is_dir() else [found.st_size, found.st_mtime_ns, found.st_ino]
        known = self._names().get(full) or {}
        if stamp and known.get("stamp") == stamp and self._record(str(known.get("digest"))) is not None:
            return known
        with closing(
            DirectoryBlobs(path) if path.is_dir() else ArchiveBlobs(plain_file(path, self.directory))
        ) as blobs:
            digest = self._unpacked(blobs, full, report)
        return {"digest": digest, "source": str(path), "stamp": stamp}

    def _unpacked(self, blobs: Blobs, full: str, report: Report) -> str:
        source = find_image(blobs, full)
        digest = source.digest.removeprefix("sha256:")
        partial = self.directory / f"{_PARTIAL}{digest}"
        for path in self.directory.glob(".*-*"):
            # Leftovers of processes that died; those of the wanted image are continued.
            if path.name.startswith((_PARTIAL, _REMOVED)) and path != partial:
                remove_tree(path)
        if self._record(digest) is None:
            remove_tree(self._directory(digest))
            unpack(blobs, source, self._directory(digest), partial, report)
        return digest

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
            config=msgspec.convert(record["config"], ImageConfig),
            size=record["size"],
            warnings=tuple(record["warnings"]),
        )

    def _record(self, digest: str) -> Mapping[str, Any] | None:
        """Return the metadata of a complete image."""
        found = _read_json(self._directory(digest) / RECORD)
        return found if "config" in found else None

    def _directory(self, digest: str) -> Path:
        return self.directory / digest.removeprefix("sha256:")

    def _names(self) -> dict[str, dict[str, Any]]:
        names: dict[str, dict[str, Any]] = _read_json(self.directory / _NAMES)
        return names

    def _write_names(self, names: Mapping[str, Any]) -> None:
        replace_file(self.directory / _NAMES, json.dumps(names, indent=1).encode(), sync=False)

    @contextmanager
    def _locked(self, report: Report) -> Iterator[None]:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Other users must not reach an image's files, such as setuid programs.
        self.directory.chmod(0o700)
        with (self.directory / _LOCK).open("a") as file:
            if not lock_at_once(file):
                report("waiting for another pumice process that changes the images")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


@contextmanager
def _errors_about(source: str) -> Iterator[None]:
    """Name the file in errors about an image."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, source) from None
    except ImageError as error:
        raise ImageError(error.problem.message, error.hint, error.problem.where.file or source) from None


def _is_layout(path: Path) -> bool:
    """Return whether a directory is an image layout rather than a file system."""
    if (path / "oci-layout").is_file():
        return True
    manifest = _read_json(path / "manifest.json", list)
    return bool(manifest) and isinstance(manifest[0], dict) and "Layers" in manifest[0]


def _read_json(path: Path, kind: type = dict) -> Any:
    with suppress(OSError, ValueError):
        found = json.loads(path.read_bytes())
        if isinstance(found, kind):
            return found
    return kind()
