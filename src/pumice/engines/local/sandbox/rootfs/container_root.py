"""The root of a container: an image or the host below, a writable layer on top, and the container's mounts."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.host_root import HostRoot
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.rootfs.kernel_filesystems import KernelFileSystems
from pumice.engines.local.sandbox.rootfs.memory_volumes import volume_path
from pumice.engines.local.sandbox.rootfs.mount_targets import Cover, GuardedMount, HostMount, Source, Tree
from pumice.engines.local.sandbox.sandbox_errors import IMAGE, StartError
from pumice.engines.local.sandbox.specs import EMPTY_DIRECTORY, EMPTY_FILE, ContainerSpec, Mount

# Of a container without a memory limit, so that no single one takes all memory, which no OOM killer gives back.
_SHARE_OF_MEMORY = "25%"
_VAR_TMP = "/var/tmp"  # noqa: S108 - the container's own, as private as its /tmp


def make_memory(spec: ContainerSpec) -> int:
    """Make the tmpfs of a container: its root, if that is in memory, and /dev/shm, which share its size.

    Who has the descriptor knows how full it is, whatever the container does with its mounts and its root directory.
    """
    size = _SHARE_OF_MEMORY if spec.memory is None else str(spec.memory)
    return syscalls.memory_tree({"mode": "755", "size": size})


def enter_root(
    spec: ContainerSpec, job: JobFilesystem, files: list[str], memory: int, trees: Sequence[Tree]
) -> list[str]:
    """Build the root and change to it; afterwards only what the spec mounts is reachable of the host.

    `memory` is what `make_memory` made; it is closed. `trees` are those of the spec's mounts, if another process opened
    them. Returns the mount points that form the root.
    """
    syscalls.attach_tree(memory, job.build)
    os.close(memory)
    os.umask(0)
    os.mkdir(f"{job.build}/shm", 0o1777)
    root = f"{job.build}/root"
    os.mkdir(root)
    mounts = _host_mounts(spec, job, files, trees)
    kernel = KernelFileSystems(spec.devices, f"{job.build}/shm", all_users=job.all_users)
    layer, work = _writable_layer(spec, job)
    parts = ["/"]
    if spec.root.image is None:
        targets = [mount.target for mount in mounts] + [spec.cwd]
        parts += HostRoot(root, layer, work, job).build(spec.hidden, targets)
    else:
        _mount_image(spec.root.image, job.lower_of(spec.root.image), layer, work, root)
    os.chdir(root)
    syscalls.pivot_root_here()
    os.umask(0o022)
    # While the old root is still mounted: the kernel permits a new /proc or /sys only where a whole one is visible.
    kernel.mount()
    syscalls.detach(".")
    os.chdir("/")
    # Outer mounts first, so that they do not cover inner ones.
    for mount in sorted(mounts, key=lambda mount: os.path.normpath(mount.target).count("/")):
        mount.attach()
    return parts


def make_read_only(parts: list[str]) -> None:
    """Make the root read-only; mounts in it stay as they are."""
    for part in parts:
        descriptor = os.open(part, os.O_PATH | os.O_CLOEXEC)
        syscalls.restrict_mount(descriptor, syscalls.READ_ONLY, below=False)
        os.close(descriptor)


def sources_of(spec: ContainerSpec) -> list[Source]:
    return [(mount.source, mount.volume) for mount in spec.mounts if isinstance(mount, Mount)]


def _host_mounts(spec: ContainerSpec, job: JobFilesystem, files: list[str], trees: Sequence[Tree]) -> list[HostMount]:
    mounts: list[HostMount] = []
    # HostRoot leaves hidden directories at the top empty; deeper ones are covered in case that a mount shows them.
    empty, nothing = f"{job.build}/empty", f"{job.build}/nothing"
    os.mkdir(empty, 0o755)
    os.close(os.open(nothing, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    mounts += [Cover(empty, path) for path in spec.hidden if path.count("/") > 1]
    mounts += [Cover(nothing, path) for path in spec.hidden_files]
    if spec.root.image is None:
        os.mkdir(f"{job.build}/temporary", 0o1777)
        mounts.append(HostMount((f"{job.build}/temporary", ""), _VAR_TMP))
    opened = iter(trees)
    for mount in spec.mounts:
        if isinstance(mount, Mount):
            mounts.append(GuardedMount(mount, next(opened, None), {EMPTY_DIRECTORY: empty, EMPTY_FILE: nothing}))
        else:
            source = volume_path(job.files, spec.pod, mount)
            mounts.append(HostMount((source, ""), mount.target, read_only=mount.read_only))
    for path, file in zip(files, spec.files, strict=True):
        mounts.append(HostMount((path, ""), file.path))
    return mounts


def _writable_layer(spec: ContainerSpec, job: JobFilesystem) -> tuple[str, str]:
    """The overlay's upper and work directories, which must be on the same file system."""
    upper = job.upper_of(spec.root.upper)
    layer, work = (f"{job.build}/layer", f"{job.build}/work") if upper is None else (upper, work_of(upper))
    os.makedirs(layer, 0o755, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    return layer, work


def work_of(upper: str) -> str:
    return upper.rstrip("/") + ".work"


def _mount_image(image: str, lower: list[str], upper: str, work: str, root: str) -> None:
    if not os.path.isdir(lower[-1]):
        raise StartError(IMAGE, f"{image}: not a directory with an unpacked image")
    os.chmod(upper, stat.S_IMODE(os.stat(lower[0]).st_mode))
    try:
        syscalls.mount_overlay(lower, upper, work, root)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StartError(IMAGE, f"{image}: the kernel cannot use it as an image: {reason}") from error
