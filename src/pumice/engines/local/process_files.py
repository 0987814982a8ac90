"""Mounts and files of a container that has no file system of its own: where they lie instead.

A directory takes the place of the root. What a container mounts lies in it, as links, or as copies where names of pods
must be rewritten; and the paths in its command and variables are made to point there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from pumice.engines.local.sandbox.specs import ContainerSpec, Mount, Tmpfs

VARIABLE = "PUMICE_ROOT"
# Files that a machine has anyway, and that are only replaced to keep pods apart.
_OWN_TO_A_MACHINE = ("/etc/", "/run/")
_MOST_COPIED = 1 << 20

Translate = Callable[[str], str]


class PlacedFiles:
    def __init__(self, root: Path, translate: Translate) -> None:
        self.root = root
        self.targets: list[str] = []
        self._translate = translate

    def place(self, spec: ContainerSpec) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True, mode=0o700)
        for mount in spec.mounts:
            self._mount(mount)
        for file in spec.files:
            if not file.path.startswith(_OWN_TO_A_MACHINE):
                self._make(file.path, file.data, file.mode)

    def redirect(self, text: str) -> str:
        """Paths of what was placed, in a command or variable, made to lead there."""
        if not self.targets:
            return text
        targets = "|".join(re.escape(target) for target in sorted(self.targets, key=len, reverse=True))
        return re.sub(rf"(?<![\w./-])({targets})(?![\w.-])", lambda match: f"{self.root}{match[1]}", text)

    def update(self, path: str, data: bytes) -> None:
        place = self._place(path)
        if place.exists():
            place.write_bytes(self._translate(data.decode("latin-1")).encode("latin-1"))

    def _mount(self, mount: Mount | Tmpfs) -> None:
        place = self._place(mount.target)
        if isinstance(mount, Mount) and mount.source == mount.target:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(mount, Tmpfs):
            place.mkdir(exist_ok=True)
        elif mount.read_only and _is_small(Path(mount.source)):
            self._copy(Path(mount.source), place)
        elif not place.exists():
            place.symlink_to(mount.source)
        self.targets.append(mount.target)

    def _copy(self, source: Path, place: Path) -> None:
        for file in _files(source):
            relative = file.relative_to(source)
            copy = place / relative if relative.parts else place
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = file.read_bytes().decode("latin-1")
            copy.write_bytes(self._translate(text).encode("latin-1"))
            copy.chmod(file.stat().st_mode & 0o777)

    def _make(self, path: str, data: bytes, mode: int) -> None:
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(self._translate(data.decode("latin-1")).encode("latin-1"))
        place.chmod(mode)
        self.targets.append(path)

    def _place(self, target: str) -> Path:
        return self.root / target.lstrip("/")


def _files(source: Path) -> Iterable[Path]:
    """Without the hidden directories that volumes of ConfigMaps keep their versions in."""
    if source.is_file():
        return [source]
    return [path for path in sorted(source.rglob("*")) if path.is_file() and not _is_hidden(path.relative_to(source))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith("..") for part in path.parts)


def _is_small(source: Path) -> bool:
    return sum(path.stat().st_size for path in _files(source)) <= _MOST_COPIED
