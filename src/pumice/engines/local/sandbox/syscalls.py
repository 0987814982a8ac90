"""System calls that Python 3.11 does not wrap. Each raises OSError with the name of the call."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Mapping, Sequence

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 36, 38

# New calls have the same number on every architecture.
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_FSOPEN, _FSCONFIG, _FSMOUNT, _CLONE3, _PIDFD_GETFD = 430, 431, 432, 435, 438
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1
_GETCWD = {"x86_64": 79, "aarch64": 17, "riscv64": 17, "ppc64le": 182, "s390x": 183}
_KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "ppc64le": 354, "s390x": 343}
_KCMP_VM, _KCMP_FILES = 1, 2
_PIDFD_THREAD = os.O_EXCL
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

_CAPABILITY_VERSION = 0x20080522
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 4, 8
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 1, 4, 0x40
_MOUNT_ATTR_IDMAP = 0x100000
_CLOEXEC, _SET_STRING, _CREATE = 1, 1, 6  # of fsopen and fsmount, and of fsconfig
# For restrict_mount.
READ_ONLY, NO_SET_ID, NO_DEVICES = 1, 2, 4

_CLONE_PARENT = 0x8000

_libc = ctypes.CDLL(None, use_errno=True)
_locked = ctypes.PyDLL(None, use_errno=True)
_locked.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def _check(result: int, tried: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{tried}: {os.strerror(number)}")
    return result


def _call(number: int, tried: str, *arguments: int | bytes) -> int:
    # ctypes passes a plain int as 32 bits and leaves the rest of the register undefined.
    wide = [ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value) for value in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *wide), tried)


def _typed(number: int, *kinds: type) -> Callable[..., int]:
    """Return a system call whose types of arguments are fixed; `_call`, which looks at each, takes three times as long.

    These are the calls that a new container makes by the hundred.
    """
    function = _libc["syscall"]
    function.argtypes = (ctypes.c_long, *kinds)
    function.restype = ctypes.c_long

    def call(tried: str, *arguments: int | bytes) -> int:
        return _check(function(number, *arguments), tried)

    return call


_WORD, _BYTES = ctypes.c_long, ctypes.c_char_p
_open_tree = _typed(_OPEN_TREE, _WORD, _BYTES, _WORD)
_move_mount = _typed(_MOVE_MOUNT, _WORD, _BYTES, _WORD, _BYTES, _WORD)
_mount_setattr = _typed(_MOUNT_SETATTR, _WORD, _BYTES, _WORD, _BYTES, _WORD)
_openat2 = _typed(_OPENAT2, _WORD, _BYTES, _BYTES, _WORD)


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(descriptor: int, flags: int) -> None:
    _check(_libc.setns(descriptor, flags), f"setns({flags:#x})")


def fork_sibling() -> int:
    """Fork a process whose parent is that of this process; this process must have a single thread. Returns as fork."""
    # The first of these numbers are flags; the child sends its parent the signal that this process would send.
    arguments = struct.pack("=8Q", _CLONE_PARENT, *[0] * 7)
    # With the lock of the interpreter held, as os.fork() does.
    result = int(_locked.syscall(ctypes.c_long(_CLONE3), arguments, ctypes.c_size_t(len(arguments))))
    return _check(result, "clone3")


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    result = _libc.mount(_bytes(source), _bytes(target), _bytes(kind), flags, _bytes(options))
    _check(result, f"mount {kind or 'of'} {target}")


def bind(source: str, target: str) -> None:
    """Mount what is at `source` at `target`, too, with the restrictions of that mount."""
    mount(source, target, None, MS_BIND)


def mount_overlay(lower: Sequence[str], upper: str, work: str, target: str) -> None:
    """Mount an overlay; the first of `lower` is the topmost. An ordinary user may set the attributes of `userxattr`."""
    layers = ":".join(map(_escape, lower))
    mount(
        "overlay",
        target,
        "overlay",
        MS_NOSUID | MS_NODEV,
        f"lowerdir={layers},upperdir={_escape(upper)},workdir={_escape(work)},userxattr",
    )


def _escape(path: str) -> str:
    return "".join("\\" + character if character in "\\:," else character for character in path)


def detach(target: str) -> None:
    _check(_libc.umount2(_bytes(target), MNT_DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the current directory the root. The old root stays mounted on top of it until `detach(".")`."""
    _call(_PIVOT_ROOT[os.uname().machine], "pivot_root", b".", b".")


def check_working_directory() -> None:
    """Raise OSError if the working directory is not below the root; C libraries hide that by a search of their own."""
    path = ctypes.create_string_buffer(1 << 16)
    _call(_GETCWD[os.uname().machine], "getcwd", ctypes.addressof(path), len(path))
    if not path.value.startswith(b"/"):
        raise FileNotFoundError(errno.ENOENT, "it is outside of the container")


def leave_session_keyring() -> None:
    """Join a new, empty session keyring: the user's holds the keys of the login session, such as Kerberos tickets."""
    _call(_KEYCTL[os.uname().machine], "keyctl", _JOIN_SESSION_KEYRING, 0)


def memory_tree(options: Mapping[str, str]) -> int:
    """Make a tmpfs that is mounted nowhere yet; `attach_tree` mounts it. The descriptor outlives the mount."""
    opened = _call(_FSOPEN, "fsopen tmpfs", b"tmpfs", _CLOEXEC)
    try:
        for name, value in options.items():
            tried = f"tmpfs with {name}={value}"
            _call(_FSCONFIG, tried, opened, _SET_STRING, name.encode(), value.encode(), 0)
        _call(_FSCONFIG, "make tmpfs", opened, _CREATE, 0, 0, 0)
        return _call(_FSMOUNT, "fsmount tmpfs", opened, _CLOEXEC, NO_SET_ID | NO_DEVICES)
    finally:
        os.close(opened)


def have_same_memory(pid: int, other: int) -> bool:
    """False where the kernel does not say."""
    return _compare(pid, other, _KCMP_VM) == 0


def have_same_files(pid: int, other: int) -> bool:
    """Return whether two threads have one table of open files; True where the kernel does not say."""
    return _compare(pid, other, _KCMP_FILES) <= 0


def _compare(pid: int, other: int, kind: int) -> int:
    """0: two processes or threads have the same. Negative: the kernel does not say."""
    return int(_libc.syscall(*map(ctypes.c_long, (_KCMP[os.uname().machine], pid, other, kind, 0, 0))))


def copy_descriptor(pid: int, number: int) -> int:
    """Return a copy of a descriptor of another process or, since Linux 6.9, thread, as dup() does."""
    try:
        process = os.pidfd_open(pid, _PIDFD_THREAD)
    except OSError:
        process = os.pidfd_open(pid)
    try:
        return _call(_PIDFD_GETFD, f"pidfd_getfd {number}", process, number, 0)
    finally:
        os.close(process)


def clone_tree(path: str, volume: str = "", *, below: bool = True) -> int:
    """Copy the mount at `path`, by default with those below it. The copy is detached, so it survives a change of root.

    Below `volume`, if given, a symbolic link is an error (ELOOP): who can write there could swap a link in at any time.
    """
    flags = _OPEN_TREE_CLONE | (_AT_RECURSIVE if below else 0) | os.O_CLOEXEC
    if not volume:
        return _open_tree(f"open_tree {path}", _AT_FDCWD, os.fsencode(path), flags)
    opened = open_beneath(volume, os.path.relpath(path, volume))
    try:
        return clone_opened(opened, below=below)
    finally:
        os.close(opened)


def clone_opened(opened: int, *, below: bool = True) -> int:
    """Copy the mount at a descriptor, as `clone_tree` does."""
    flags = _OPEN_TREE_CLONE | _AT_EMPTY_PATH | (_AT_RECURSIVE if below else 0) | os.O_CLOEXEC
    return _open_tree("open_tree", opened, b"", flags)


def open_beneath(directory: str | int, path: str, flags: int = os.O_PATH) -> int:
    """Return a descriptor of a path in a directory, given by path or descriptor, without following any link (ELOOP)."""
    top = directory if isinstance(directory, int) else os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _open(top, path, flags, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    finally:
        if top != directory:
            os.close(top)


def open_without_links(path: str) -> int:
    """Return a descriptor that stands for an absolute path on which there is no link (else ELOOP)."""
    return _open(_AT_FDCWD, path, os.O_PATH, _RESOLVE_NO_SYMLINKS)


def _open(directory: int, path: str, flags: int, resolve: int) -> int:
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)
    return _openat2(f"openat2 {path}", directory, os.fsencode(path), how, len(how))


def restrict_mount(tree: int, attributes: int, *, below: bool = True) -> None:
    """Set attributes of a mount, by default with all mounts below it."""
    _set_attributes(tree, attributes, 0, below=below)


def map_ids(tree: int, namespace: int, *, below: bool = True) -> None:
    """Show the owners of a cloned tree as the ids that a user namespace has for them, and write them as such."""
    _set_attributes(tree, _MOUNT_ATTR_IDMAP, namespace, below=below)


def _set_attributes(tree: int, attributes: int, namespace: int, *, below: bool) -> None:
    packed = struct.pack("=QQQQ", attributes, 0, 0, namespace)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if below else 0)
    _mount_setattr("mount_setattr", tree, b"", flags, packed, len(packed))


def attach_tree(tree: int, target: str | int) -> None:
    """Attach a cloned tree. A symbolic link at the end of `target` is not followed; links on the way are.

    A `target` that is a descriptor needs no look-up. The descriptor of the tree then is that of the attached mount.
    """
    if isinstance(target, int):
        flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
        _move_mount("move_mount", tree, b"", target, b"", flags)
    else:
        _move_mount(f"move_mount {target}", tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)


def bind_restricted(source: str, target: str, attributes: int) -> None:
    """Show what is at `source`, with the mounts below it, at a path without links, with these attributes."""
    tree = clone_tree(source)
    try:
        restrict_mount(tree, attributes)
        attach_tree(tree, target)
    finally:
        os.close(tree)


def prctl(option: int, argument: int = 0, further: int = 0) -> None:
    result = _libc.prctl(option, argument, further, 0, 0)
    _check(result, f"prctl({option})")


def set_capabilities(mask: int) -> None:
    """Set the permitted and the effective capabilities of this process; it passes none on."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    _check(_libc.capset(header, data), "capset")
