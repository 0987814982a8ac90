"""Memory volumes: tmpfs mounts that live as long as their pod.

job-init mounts them outside of all containers: containers of a pod share them, and they survive container restarts.
"""

from __future__ import annotations

import contextlib
import os

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.specs import ContainerSpec, Tmpfs


class MemoryVolumes:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._mounted: dict[str, list[str]] = {}  # by pod

    def mount(self, spec: ContainerSpec) -> None:
        """Mount the volumes that the container uses, unless another container of the pod did."""
        mounted = self._mounted.setdefault(spec.pod, [])
        for tmpfs in spec.mounts:
            if isinstance(tmpfs, Tmpfs) and (path := volume_path(self._directory, spec.pod, tmpfs)) not in mounted:
                os.makedirs(path, exist_ok=True)
                options = f"mode={tmpfs.mode:o}" + (f",size={tmpfs.size}" if tmpfs.size is not None else "")
                syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, options)
                if tmpfs.group is not None:
                    # Refused where only one user is mapped: no other group exists there.
                    with contextlib.suppress(OSError):
                        os.chown(path, -1, tmpfs.group)
                        os.chmod(path, tmpfs.mode | 0o2000)
                mounted.append(path)

    def remove(self, pod: str) -> None:
        for path in self._mounted.pop(pod, []):
            syscalls.detach(path)
            os.rmdir(path)


def volume_path(directory: str, pod: str, tmpfs: Tmpfs) -> str:
    """Neither a pod's name nor a volume's contains "~"."""
    return f"{directory}/{pod}~{tmpfs.volume}"
