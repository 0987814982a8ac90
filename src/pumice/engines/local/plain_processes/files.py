"""Mounts and files of a container that has no file system of its own: where they lie instead.

A directory takes the place of the root. What a container mounts lies in it, as links, or as copies where names of pods
must be rewritten; and so do the directories that a pod has for itself, such as /home. The paths in the command and
variables of the container are made to lead there. A program that has such a path built in does not find it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, Tmpfs

VARIABLE = "PUMICE_ROOT"
PROGRAMS = "/usr/local/bin"
# Files that a machine has anyway, and that are only replaced to keep pods apart.
_OWN_TO_A_MACHINE = ("/etc/", "/run/")
LAST_WORDS = "/dev/termination-log"
_MOST_COPIED = 1 << 20
# An absolute path in a text, as far as it can be told from what surrounds it.
_PATH = re.compile(r"(?<![\w./~-])/[\w.@+%-]+(?:/+[\w.@+%-]+)*")

Translate = Callable[[str], str]


class PlacedFiles:
    def __init__(self, root: Path, translate: Translate) -> None:
        self.root = root
        self.targets: list[str] = []  # what lies in the root
        self._shown: list[str] = []  # what lies where it always was
        self._translate = translate

    def place(self, spec: ContainerSpec) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True, mode=0o700)
        for path in spec.hidden:
            self.add_directory(path)
        # Jobs write there whether anybody reads it or not; root would write to the machine's /dev.
        self.add(File(LAST_WORDS, b""))
        # Those further up first, as they are mounted.
        for mount in sorted(spec.mounts, key=lambda mount: mount.target.count("/")):
            self._mount(mount if isinstance(mount, Mount) else self._memory(spec.pod, mount))
        for file in spec.files:
            if not file.path.startswith(_OWN_TO_A_MACHINE):
                self.add(replace(file, data=self._translated(file.data)))
        if not _is_directory(Path(self.where(spec.cwd))):
            # A pod gets one that is missing made for it; that must not be anywhere on the user's machine.
            self.add_directory(spec.cwd)

    def add_directory(self, path: str) -> None:
        self._place(path).mkdir(parents=True, exist_ok=True)
        self.targets.append(path)

    def add(self, file: File) -> None:
        """As it is, without a name translated."""
        place = self._place(file.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        place.chmod(file.mode)
        self.targets.append(file.path)

    def redirect(self, text: str) -> str:
        """Paths of what was placed, in a command or variable, made to lead there."""
        return _PATH.sub(lambda match: self.where(match[0]), text)

    def where(self, path: str) -> str:
        """The deepest of what covers it decides, as with mounts."""
        covering = [(len(target), True) for target in self.targets if _is_below(path, target)]
        covering += [(len(target), False) for target in self._shown if _is_below(path, target)]
        return f"{self.root}{path}" if max(covering, default=(0, False))[1] else path

    def _memory(self, pod: str, tmpfs: Tmpfs) -> Mount:
        """A directory beside the roots of the pod's containers, which share it."""
        shared = self.root.with_name(f"{pod}.memory.{tmpfs.volume}")
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Mount(str(shared), tmpfs.target)

    def _mount(self, mount: Mount) -> None:
        place = self._place(mount.target)
        if mount.source == mount.target:
            self._shown.append(mount.target)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        if mount.read_only and _is_small(Path(mount.source)):
            self._copy(Path(mount.source), place)
        else:
            _clear(place)
            place.symlink_to(mount.source)
        self.targets.append(mount.target)

    def _copy(self, source: Path, place: Path) -> None:
        if source.is_dir():
            place.mkdir(exist_ok=True)
        for file in _files(source):
            relative = file.relative_to(source)
            copy = place / relative if relative.parts else place
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(self._translated(file.read_bytes()))
            copy.chmod(file.stat().st_mode & 0o777)

    def _translated(self, data: bytes) -> bytes:
        return self._translate(data.decode("latin-1")).encode("latin-1")

    def _place(self, target: str) -> Path:
        return self.root / target.lstrip("/")


def _clear(place: Path) -> None:
    """A mount covers what was there before."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _is_directory(path: Path) -> bool:
    """One below a directory that is closed to us is as good as none."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _files(source: Path) -> Iterable[Path]:
    """Without the hidden directories that volumes of ConfigMaps keep their versions in."""
    if source.is_file():
        return [source]
    return [path for path in sorted(source.rglob("*")) if path.is_file() and not _is_hidden(path.relative_to(source))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith("..") for part in path.parts)


def _is_small(source: Path) -> bool:
    return sum(path.stat().st_size for path in _files(source)) <= _MOST_COPIED
