"""The root of a container: an image or the host below, a writable layer above, then what is mounted into it."""

from __future__ import annotations

import os
import stat

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.rootfs import overlay
from pumice.engines.local.sandbox.rootfs.host_root import HostRoot
from pumice.engines.local.sandbox.rootfs.job_filesystem import Ground
from pumice.engines.local.sandbox.rootfs.kernel_filesystems import KernelFileSystems
from pumice.engines.local.sandbox.rootfs.memory_volumes import memory_place
from pumice.engines.local.sandbox.rootfs.mount_targets import Cover, Tree
from pumice.engines.local.sandbox.sandbox_errors import IMAGE, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount


def enter_root(spec: ContainerSpec, ground: Ground, files: list[str]) -> list[str]:
    """Build the root and go there; nothing of the host's tree is reachable afterwards but what the spec mounts.

    Returns the mounts that the root is made of.
    """
    syscalls.mount("tmpfs", ground.place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    os.umask(0)
    root = f"{ground.place}/root"
    os.mkdir(root)
    late = _trees(spec, ground, files)
    kernel = KernelFileSystems(spec.devices, all_users=ground.all_users)
    layer, work = _layer(spec, ground)
    parts = ["/"]
    if spec.root.image is None:
        targets = [tree.target for tree in late] + [spec.cwd]
        parts += HostRoot(root, layer, work, ground).build(spec.hidden, targets)
    else:
        skeleton = ground.skeleton_of(spec.root.image)
        _overlay([*([skeleton] if skeleton else []), spec.root.image], layer, work, root)
    os.chdir(root)
    syscalls.pivot_root_here()
    os.umask(0o022)
    # The kernel gives a new /proc or /sys only to who sees a whole one already, which is the host's.
    kernel.mount()
    syscalls.detach(".")
    os.chdir("/")
    # Those further up first: what is mounted below must not be covered.
    for tree in sorted(late, key=lambda tree: os.path.normpath(tree.target).count("/")):
        tree.attach()
    return parts


def seal(parts: list[str]) -> None:
    """Make the root read-only; what is mounted into it stays as it is."""
    for part in parts:
        descriptor = os.open(part, os.O_PATH | os.O_CLOEXEC)
        syscalls.make_read_only(descriptor, below=False)
        os.close(descriptor)


def _trees(spec: ContainerSpec, ground: Ground, files: list[str]) -> list[Tree]:
    trees: list[Tree] = []
    for number, path in enumerate(_deeply_hidden(spec)):
        empty = f"{ground.place}/hidden{number}"
        os.mkdir(empty, 0o755)
        trees.append(Cover(empty, path))
    for mount in spec.mounts:
        source = mount.source if isinstance(mount, Mount) else memory_place(ground.files, spec.pod, mount)
        trees.append(Tree(source, mount.target, read_only=mount.read_only))
    for source, file in zip(files, spec.files, strict=True):
        trees.append(Tree(source, file.path))
    return trees


def _deeply_hidden(spec: ContainerSpec) -> list[str]:
    """Directories at the top are simply not shown; the others are covered, where something shows them."""
    real = {os.path.realpath(path) for path in spec.hidden}
    return sorted(path for path in real if path.count("/") > 1 and os.path.isdir(path))


def _layer(spec: ContainerSpec, ground: Ground) -> tuple[str, str]:
    """Where the writable layer and the kernel's working space for it are: always on one file system."""
    upper = spec.root.upper
    layer, work = (f"{ground.place}/layer", f"{ground.place}/work") if upper is None else (upper, work_of(upper))
    os.makedirs(layer, 0o755, exist_ok=True)
    os.makedirs(work, 0o755, exist_ok=True)
    return layer, work


def work_of(upper: str) -> str:
    return upper.rstrip("/") + ".work"


def _overlay(lower: list[str], upper: str, work: str, place: str) -> None:
    if not os.path.isdir(lower[-1]):
        raise StartError(IMAGE, f"{lower[-1]}: no directory of an unpacked image")
    os.chmod(upper, stat.S_IMODE(os.stat(lower[0]).st_mode))
    try:
        overlay.mount(lower, upper, work, place)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise StartError(IMAGE, f"{lower[-1]}: cannot be used as an image, the kernel says: {why}") from error
