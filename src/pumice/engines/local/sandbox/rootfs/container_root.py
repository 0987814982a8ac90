"""The root of a container: an image or the host below, a writable layer on top, and the container's mounts."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs.host_root import HostView, Look, Wanted, build
from pumice.engines.local.sandbox.rootfs.job_filesystem import JobFilesystem
from pumice.engines.local.sandbox.rootfs.memory_volumes import volume_path
from pumice.engines.local.sandbox.rootfs.mount_targets import Cover, GuardedMount, HostMount, Source, Tree
from pumice.engines.local.sandbox.sandbox_errors import DEVICE, IMAGE, StartError
from pumice.engines.local.sandbox.specs import EMPTY_DIRECTORY, EMPTY_FILE, ContainerSpec, File, Mount

# Of a container without a memory limit, so that no single one takes all memory, which no OOM killer gives back.
_SHARE_OF_MEMORY = "25%"
_VAR_TMP = "/var/tmp"  # noqa: S108 - the container's own, as private as its /tmp


def make_memory(spec: ContainerSpec) -> int:
    """Make the tmpfs of a container: its root, if that is in memory, and /dev/shm, which share its size.

    Who has the descriptor knows how full it is, whatever the container does with its mounts and its root directory.
    """
    size = _SHARE_OF_MEMORY if spec.memory is None else str(spec.memory)
    return syscalls.memory_tree({"mode": "755", "size": size})


class Parts(NamedTuple):
    """What job-init has made for the root of a container."""

    files: Sequence[str]  # the paths of those in the spec
    lower: Sequence[str]  # the layers of the image, the topmost first
    upper: str | None  # the path of a writable layer on disk
    memory: int  # what `make_memory` made
    view: HostView | None = None  # of the host's file system, if that serves as image
    trees: Sequence[Tree] = ()  # those of the mounts in the spec, if another process opened them


def enter_root(spec: ContainerSpec, job: JobFilesystem, parts: Parts) -> list[str]:
    """Build the root and change to it; afterwards only what the spec mounts is reachable of the host.

    Returns the mount points that form the root.
    """
    syscalls.attach_tree(parts.memory, job.build)
    os.close(parts.memory)
    os.umask(0)
    os.mkdir(f"{job.build}/shm", 0o1777)
    root = f"{job.build}/root"
    os.mkdir(root)
    mounts = _host_mounts(spec, job, parts)
    devices = [HostMount((path, ""), path, read_only=True, kind=DEVICE) for path in spec.devices]
    layer, work = (
        (f"{job.build}/layer", f"{job.build}/work") if parts.upper is None else (parts.upper, work_of(parts.upper))
    )
    os.makedirs(layer, 0o755, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    mount_points = ["/"]
    if parts.view is not None:
        mount_points += build(parts.view, job.host, root, layer, work)
    elif spec.root.image is not None:
        _mount_image(spec.root.image, parts.lower, layer, work, root)
    job.kernel.mount(root, f"{job.build}/shm")
    os.chdir(root)
    syscalls.pivot_root_here()
    os.umask(0o022)
    syscalls.detach(".")
    os.chdir("/")
    # Outer mounts first, so that they do not cover inner ones.
    for mount in [*devices, *sorted(mounts, key=lambda mount: os.path.normpath(mount.target).count("/"))]:
        mount.attach()
    return mount_points


def make_read_only(mount_points: Sequence[str]) -> None:
    """Make the root read-only; mounts in it stay as they are."""
    for point in mount_points:
        descriptor = os.open(point, os.O_PATH | os.O_CLOEXEC)
        syscalls.restrict_mount(descriptor, syscalls.READ_ONLY, below=False)
        os.close(descriptor)


def view_host(spec: ContainerSpec, job: JobFilesystem) -> HostView:
    """Return what a container sees of the host's file system; made once for all that want the same."""
    targets = (*(mount.target for mount in spec.mounts), *(file.path for file in spec.files), spec.cwd, _VAR_TMP)
    shared: list[File] = []
    # A mount can be written to, even if the root cannot.
    if not spec.root.read_only:
        shared = [file for file in spec.files if file.shared]
        paths = {file.path for file in shared}
        hidden = (path for path in spec.hidden_files if path not in paths and os.path.isfile(path))
        shared += [File(path, b"", 0o444) for path in hidden]
    # What a mount would cover is mounted on top of it.
    mounted = {f"{path(mount.target)}/" for mount in spec.mounts for path in (os.path.normpath, os.path.realpath)}
    shared = [file for file in shared if not any(f"{file.path}/".startswith(target) for target in mounted)]
    upper = job.upper_of(spec.root.upper)
    key = Wanted(spec.hidden, targets, tuple(shared)), upper is None
    if key not in job.views:
        directory = f"{job.skeletons}/view-{len(job.views)}"
        os.mkdir(directory)
        trial = directory if upper is None else f"{upper}.trial"
        job.views[key] = Look(job.host, key[0], directory, trial).view
        if upper is not None:
            shutil.rmtree(trial, ignore_errors=True)
    return job.views[key]


def sources_of(spec: ContainerSpec) -> list[Source]:
    return [(mount.source, mount.volume) for mount in spec.mounts if isinstance(mount, Mount)]


def _host_mounts(spec: ContainerSpec, job: JobFilesystem, parts: Parts) -> list[HostMount]:
    mounts: list[HostMount] = []
    # HostRoot leaves hidden directories at the top empty; deeper ones are covered in case that a mount shows them.
    empty, nothing = job.kernel.empty, job.kernel.nothing
    mounts += [Cover(empty, path) for path in spec.hidden if path.count("/") > 1]
    mounts += [Cover(nothing, path) for path in spec.hidden_files]
    if spec.root.image is None:
        os.mkdir(f"{job.build}/temporary", 0o1777)
        mounts.append(HostMount((f"{job.build}/temporary", ""), _VAR_TMP))
    opened = iter(parts.trees)
    for mount in spec.mounts:
        if isinstance(mount, Mount):
            mounts.append(GuardedMount(mount, next(opened, None), {EMPTY_DIRECTORY: empty, EMPTY_FILE: nothing}))
        else:
            source = volume_path(job.files, spec.pod, mount)
            mounts.append(HostMount((source, ""), mount.target, read_only=mount.read_only))
    for path, file in zip(parts.files, spec.files, strict=True):
        mounts.append(HostMount((path, ""), file.path))
    return mounts


def work_of(upper: str) -> str:
    return upper.rstrip("/") + ".work"


def _mount_image(image: str, lower: Sequence[str], upper: str, work: str, root: str) -> None:
    if not os.path.isdir(lower[-1]):
        raise StartError(IMAGE, f"{image}: not a directory with an unpacked image")
    os.chmod(upper, stat.S_IMODE(os.stat(lower[0]).st_mode))
    try:
        syscalls.mount_overlay(lower, upper, work, root)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StartError(IMAGE, f"{image}: the kernel cannot use it as an image: {reason}") from error
