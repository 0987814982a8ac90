"""Memory volumes: file systems in memory that live as long as the pod does.

job-init mounts them, outside of all containers: several containers may share one, and it outlives the restart of each.
"""

from __future__ import annotations

import contextlib
import os

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.specs import ContainerSpec, Tmpfs


class MemoryVolumes:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._made: dict[str, list[str]] = {}  # by pod

    def provide(self, spec: ContainerSpec) -> None:
        """Have those that the container mounts."""
        made = self._made.setdefault(spec.pod, [])
        for tmpfs in spec.mounts:
            if isinstance(tmpfs, Tmpfs) and (place := memory_place(self._directory, spec.pod, tmpfs)) not in made:
                os.makedirs(place, exist_ok=True)
                options = f"mode={tmpfs.mode:o}" + (f",size={tmpfs.size}" if tmpfs.size is not None else "")
                syscalls.mount("tmpfs", place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
                _give(place, tmpfs)
                made.append(place)

    def remove(self, pod: str) -> None:
        for place in self._made.pop(pod, []):
            syscalls.detach(place)
            os.rmdir(place)


def _give(place: str, tmpfs: Tmpfs) -> None:
    """New files in it are the group's, too. Where only one user is mapped there is no other group to give it to."""
    if tmpfs.group is not None:
        with contextlib.suppress(OSError):
            os.chown(place, -1, tmpfs.group)
            os.chmod(place, tmpfs.mode | 0o2000)


def memory_place(directory: str, pod: str, tmpfs: Tmpfs) -> str:
    """No pod has such a sign in its name, and no volume."""
    return f"{directory}/{pod}~{tmpfs.volume}"
