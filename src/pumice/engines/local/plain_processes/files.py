"""Mounts and files of a container without a file system of its own.

A directory serves as its root. Mounts become links in it, or copies where pod names must be rewritten; private
directories such as /home are in it too. Paths in the command and the environment of the container are rewritten to
point there. A program that has such a path built in does not find it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from pumice.engines.local.host_access.read_only import is_below
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, Tmpfs

VARIABLE = "PUMICE_ROOT"
PROGRAMS = "/usr/local/bin"
# Files that every machine has; pods replace them only for isolation.
_MACHINE_FILES = ("/etc/", "/run/")
TERMINATION_LOG = "/dev/termination-log"
_MAX_COPY = 1 << 20
# An absolute path in a text.
_PATH = re.compile(r"(?<![\w./~-])/[\w.@+%-]+(?:/+[\w.@+%-]+)*")

Translate = Callable[[str], str]


class ContainerFiles:
    def __init__(self, root: Path, translate: Translate) -> None:
        self.root = root
        self.targets: list[str] = []  # paths that are in the root
        self._unchanged: list[str] = []  # mounts whose source is their target
        self._translate = translate

    def populate(self, spec: ContainerSpec) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True, mode=0o700)
        for path in spec.hidden:
            self.add_directory(path)
        # Jobs write to it even where it is not read, and root's jobs would write to the machine's /dev.
        self.add(File(TERMINATION_LOG, b""))
        # Outer mounts first.
        for mount in sorted(spec.mounts, key=lambda mount: mount.target.count("/")):
            self._mount(mount if isinstance(mount, Mount) else self._memory(spec.pod, mount))
        for file in spec.files:
            if not file.path.startswith(_MACHINE_FILES):
                self.add(file._replace(data=self._translated(file.data)))
        if not os.path.isdir(self.host_path(spec.cwd)):  # noqa: PTH112 - False if a parent may not be searched
            # Pods create a missing working directory; not on the user's machine, though.
            self.add_directory(spec.cwd)

    def add_directory(self, path: str) -> None:
        self._in_root(path).mkdir(parents=True, exist_ok=True)
        self.targets.append(path)

    def add(self, file: File) -> None:
        """Add a file without translating names in it."""
        path = self._in_root(file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
        self.targets.append(file.path)

    def rewrite_paths(self, text: str) -> str:
        """Replace the paths in a command or variable by those on the host."""
        return _PATH.sub(lambda match: self.host_path(match[0]), text)

    def host_path(self, path: str) -> str:
        """Where a path of the container is on the host; the innermost mount decides."""
        covering = [(len(target), True) for target in self.targets if is_below(path, target)]
        covering += [(len(target), False) for target in self._unchanged if is_below(path, target)]
        return f"{self.root}{path}" if max(covering, default=(0, False))[1] else path

    def _memory(self, pod: str, tmpfs: Tmpfs) -> Mount:
        """A directory beside the roots of the pod's containers, which share the volume."""
        shared = self.root.with_name(f"{pod}.memory.{tmpfs.volume}")
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Mount(str(shared), tmpfs.target)

    def _mount(self, mount: Mount) -> None:
        path = self._in_root(mount.target)
        if mount.source == mount.target:
            self._unchanged.append(mount.target)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        source = Path(mount.source)
        if mount.read_only and sum(file.stat().st_size for file in _files(source)) <= _MAX_COPY:
            self._copy(source, path)
        else:
            # A mount covers what was there.
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.symlink_to(source)
        self.targets.append(mount.target)

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            target.mkdir(exist_ok=True)
        for file in _files(source):
            relative = file.relative_to(source)
            copy = target / relative if relative.parts else target
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(self._translated(file.read_bytes()))
            copy.chmod(file.stat().st_mode & 0o777)

    def _translated(self, data: bytes) -> bytes:
        return self._translate(data.decode("latin-1")).encode("latin-1")

    def _in_root(self, target: str) -> Path:
        return self.root / target.lstrip("/")


def _files(source: Path) -> Iterable[Path]:
    """The files of a volume, without the `..data` directories in which ConfigMap volumes keep their versions."""
    if source.is_file():
        return [source]
    paths = (path for path in sorted(source.rglob("*")) if path.is_file())
    return [path for path in paths if not any(part.startswith("..") for part in path.relative_to(source).parts)]
