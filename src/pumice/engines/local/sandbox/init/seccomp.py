"""The system call filter of containers: always loaded, unless the user says `--unconfined`.

It refuses calls that reach beyond a container whatever namespaces it has (kernel keys, eBPF, loading a kernel), large
parts of the kernel that few jobs need and that had many defects (io_uring, userfaultfd), and set-id bits, since what a
container writes to a mounted directory belongs to a user of this machine, who would lend his rights to everyone. A
filter sees numbers and arguments, not what pointers lead to: `openat2`, whose mode is in a structure, does not exist in
containers, and neither do the calls of other architectures (32-bit programs). All programs know what to do without.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

from pumice.engines.local.sandbox import syscalls

# By architecture: its number in the kernel's audit, and the calls with their numbers. Newer calls have one number.
_GENERIC = {
    "setxattr": 5,
    "lsetxattr": 6,
    "fsetxattr": 7,
    "lookup_dcookie": 18,
    "mknodat": 33,
    "nfsservctl": 42,
    "fchmod": 52,
    "fchmodat": 53,
    "openat": 56,
    "quotactl": 60,
    "acct": 89,
    "unshare": 97,
    "kexec_load": 104,
    "init_module": 105,
    "delete_module": 106,
    "syslog": 116,
    "reboot": 142,
    "setgroups": 159,
    "socket": 198,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "clone": 220,
    "swapon": 224,
    "swapoff": 225,
    "perf_event_open": 241,
    "open_by_handle_at": 265,
    "finit_module": 273,
    "bpf": 280,
    "userfaultfd": 282,
    "kexec_file_load": 294,
}
_X86_64 = {
    "open": 2,
    "socket": 41,
    "clone": 56,
    "creat": 85,
    "chmod": 90,
    "fchmod": 91,
    "syslog": 103,
    "setgroups": 116,
    "mknod": 133,
    "acct": 163,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "iopl": 172,
    "ioperm": 173,
    "init_module": 175,
    "delete_module": 176,
    "quotactl": 179,
    "nfsservctl": 180,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "lookup_dcookie": 212,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "openat": 257,
    "mknodat": 259,
    "fchmodat": 268,
    "unshare": 272,
    "perf_event_open": 298,
    "open_by_handle_at": 304,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
}
_NEW = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "openat2": 437, "quotactl_fd": 443}
_NEW |= {"clone3": 435, "fchmodat2": 452, "setxattrat": 463}
_ARCHITECTURES = {
    "x86_64": (0xC000003E, _X86_64 | _NEW),
    "aarch64": (0xC00000B7, _GENERIC | _NEW),
    "riscv64": (0xC00000F3, _GENERIC | _NEW),
}
_X32 = 0x40000000  # x86_64 calls with pointers of 32 bits

REFUSED = (
    *("add_key", "request_key", "keyctl", "bpf", "userfaultfd", "perf_event_open", "syslog", "openat2"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "lookup_dcookie"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "nfsservctl", "iopl", "ioperm"),
)
_XATTRS = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat")
# The argument with the mode; of calls that open files, also the one with the flags, of which some create a file.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
_FLAGS_AND_MODES = {"open": (1, 2), "openat": (2, 3)}
_CREATES = os.O_CREAT | 0o20000000  # and the bit of O_TMPFILE that is not in O_DIRECTORY
_SET_ID = 0o6000
_AF_VSOCK = 40  # sockets to the hypervisor, which belong to no network namespace

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_MODE_FILTER = 2
Step = tuple[int, int, int, int]  # code, jump if true, jump if false, value


def is_known(machine: str) -> bool:
    return machine in _ARCHITECTURES


def call_numbers(machine: str) -> dict[str, int]:
    return _ARCHITECTURES[machine][1]


def load(machine: str, *, confined: bool, single_user: bool, nested: bool) -> None:
    """Load the filter into this process; needs CAP_SYS_ADMIN in its user namespace.

    With a `single_user`, setgroups() succeeds without effect. The kernel refuses it there, and sshd and every program
    that calls initgroups() gives up; there are no groups to drop, so success is a correct answer. With many users, a
    container gets either user namespaces (`nested`) or attributes of files, which those could forge.
    """
    if not is_known(machine):
        return
    steps = list(program(machine, confined=confined, single_user=single_user, nested=nested))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    syscalls.prctl(syscalls.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(described))


def program(machine: str, *, confined: bool, single_user: bool, nested: bool) -> Iterator[Step]:
    architecture, numbers = _ARCHITECTURES[machine]
    foreign = _give(errno.ENOSYS) if confined else _give(0, _ALLOW)
    yield _LOAD, 0, 0, 4
    yield _EQUAL, 1, 0, architecture
    yield foreign
    yield _LOAD, 0, 0, 0
    if machine == "x86_64":
        yield _AT_LEAST, 0, 1, _X32
        yield foreign
    if single_user:
        yield from _for(numbers["setgroups"], _give(0))
    if confined:
        yield from _confine(numbers)
    if confined and nested and not single_user:
        for name in _XATTRS:
            yield from _for(numbers[name], _give(errno.EOPNOTSUPP))
    if confined and not nested:
        yield from _refuse_user_namespaces(numbers)
    yield _give(0, _ALLOW)


def _confine(numbers: dict[str, int]) -> Iterator[Step]:
    allow, refuse = _give(0, _ALLOW), _give(errno.EPERM)
    for name in REFUSED:
        if name in numbers:
            yield from _for(numbers[name], _give(errno.ENOSYS))
    for name, mode in _MODES.items():
        if name in numbers:
            yield from _for(numbers[name], _argument(mode), (_ANY_BIT, 0, 1, _SET_ID), refuse, allow)
    for name, (flags, mode) in _FLAGS_AND_MODES.items():
        if name in numbers:
            creates = (_argument(flags), (_ANY_BIT, 0, 3, _CREATES))
            yield from _for(numbers[name], *creates, _argument(mode), (_ANY_BIT, 0, 1, _SET_ID), refuse, allow)
    no_family = _give(errno.EAFNOSUPPORT)
    yield from _for(numbers["socket"], _argument(0), (_EQUAL, 0, 1, _AF_VSOCK), no_family, allow)


def _refuse_user_namespaces(numbers: dict[str, int]) -> Iterator[Step]:
    """The flags of clone3 are in a structure; C libraries then use clone."""
    yield from _for(numbers["clone3"], _give(errno.ENOSYS))
    for name in ("clone", "unshare"):
        flag = (_ANY_BIT, 0, 1, syscalls.NEWUSER)
        yield from _for(numbers[name], _argument(0), flag, _give(errno.EPERM), _give(0, _ALLOW))


def _for(number: int, *steps: Step) -> Iterator[Step]:
    """Steps for one call. The last returns, because an argument may have taken the place of the number."""
    yield _EQUAL, 0, len(steps), number
    yield from steps


def _argument(index: int) -> Step:
    """Load the lower half of an argument; all known architectures are little-endian."""
    return _LOAD, 0, 0, 16 + 8 * index


def _give(number: int, action: int = 0x00050000) -> Step:
    """Return an errno to the caller, or allow the call."""
    return _RETURN, 0, 0, action | number
