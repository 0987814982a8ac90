"""The system call filter of containers: always loaded, unless the user says `--unconfined`.

`system_calls.json` lists the calls that containers usually get, and where that list is from; `scripts/system_calls.py`
says what its groups are. Every other call, and every call of another architecture (32-bit programs), does not exist in
containers (ENOSYS): programs know what to do without, and a call that is too new for the list is refused likewise.

Beyond the list, the filter refuses set-id bits, since what a container writes to a mounted directory belongs to a user
of this machine, who would lend his rights to everyone. A filter sees numbers and arguments, not what pointers lead to:
`openat2`, whose mode is in a structure, does not exist in containers.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pumice.engines.local.sandbox import syscalls

# The numbers of the architectures in the kernel's audit.
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_LIST = os.path.join(os.path.dirname(__file__), "system_calls.json")

_LOAD, _JUMP, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_FARTHEST = 255  # steps that a comparison can jump over
_MODE_FILTER = 2
Step = tuple[int, int, int, int]  # code, jump if true, jump if false, value
Steps = tuple[Step, ...]


def _answer(number: int) -> Steps:
    """Return an errno to the caller; 0 is success without effect."""
    return ((_RETURN, 0, 0, 0x00050000 | number),)


def _look(argument: int, comparison: int, values: Sequence[int], found: Steps, otherwise: Steps) -> Steps:
    """Compare the lower half of an argument, which all known architectures store first, with any of the values."""
    count = len(values)
    compare = ((comparison, count - position, 0, value) for position, value in enumerate(values))
    return (_LOAD, 0, 0, 16 + 8 * argument), *compare, *otherwise, *found


_ALLOW: Steps = ((_RETURN, 0, 0, 0x7FFF0000),)
_MISSING, _REFUSED = _answer(errno.ENOSYS), _answer(errno.EPERM)

# Of calls that open files, some flags create one: O_CREAT, and the bit of O_TMPFILE that is not in O_DIRECTORY.
_CREATES, _SET_ID = os.O_CREAT | 0o20000000, (0o6000,)
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
_FLAGS_AND_MODES = {"open": (1, 2), "openat": (2, 3)}
_XATTRS = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat")
# Sockets for the kernel's ciphers, and to the hypervisor, which belong to no network namespace.
_AF_ALG, _AF_VSOCK = 38, 40
# Those of the profile: with and without PER_LINUX32 and UNAME26, and the question which it is. For debuggers also
# ADDR_NO_RANDOMIZE. Others would make all readable memory executable.
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF, 0x40000)
_NEWTIME = 0x80  # for unshare only: in clone, it is part of the signal
_NAMESPACES = sum((syscalls.NEWNS, syscalls.NEWCGROUP, syscalls.NEWUTS, syscalls.NEWIPC))
_NAMESPACES |= sum((syscalls.NEWUSER, syscalls.NEWPID, syscalls.NEWNET))


class Options(NamedTuple):
    """What a filter depends on.

    With a `single_user`, setgroups() succeeds without effect. The kernel refuses it there, and sshd and every program
    that calls initgroups() gives up; there are no groups to drop, so success is a correct answer. With many users, a
    container gets either user namespaces (`nested`) or attributes of files, which those could forge.
    """

    confined: bool
    single_user: bool
    nested: bool


Calls = Mapping[str, Mapping[str, int]]  # by group, the numbers of calls on one architecture


def is_known(machine: str) -> bool:
    return machine in _ARCHITECTURES


def read_calls(machine: str) -> Calls:
    with open(_LIST, "rb") as file:
        listed = json.load(file)
    column = listed["architectures"].index(machine)
    groups = ((name, rows) for name, rows in listed.items() if isinstance(rows, dict))
    return {
        group: {name: row[column] for name, row in rows.items() if row[column] is not None} for group, rows in groups
    }


def program(machine: str, calls: Calls, options: Options) -> list[Step]:
    """Return the steps of a filter; none if it would allow everything."""
    rules = _confined_rules(calls, options) if options.confined else {}
    if options.single_user:
        rules[calls["usual"]["setgroups"]] = _answer(0)
    if not rules:
        return []
    others = _MISSING if options.confined else _ALLOW
    # Ranges of numbers with the same rule, by their first number.
    ranges: list[tuple[int, Steps]] = []
    for number in sorted({0, *rules, *(each + 1 for each in rules)}):
        rule = rules.get(number, others)
        if not ranges or ranges[-1][1] != rule:
            ranges.append((number, rule))
    return [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), *others, (_LOAD, 0, 0, 0), *_search(ranges)]


def _confined_rules(calls: Calls, options: Options) -> dict[int, Steps]:
    rules = dict.fromkeys((*calls["usual"], *calls["added"]), _ALLOW)
    rules |= dict.fromkeys(calls["privileged"], _ALLOW if options.nested else _REFUSED)
    special = {name: _look(mode, _ANY_BIT, _SET_ID, _REFUSED, _ALLOW) for name, mode in _MODES.items()}
    for name, (flags, mode) in _FLAGS_AND_MODES.items():
        # If the flags create nothing, go on behind the look at the mode, where the call is allowed.
        creates = (_LOAD, 0, 0, 16 + 8 * flags), (_ANY_BIT, 0, 2, _CREATES)
        special[name] = (*creates, *_look(mode, _ANY_BIT, _SET_ID, _REFUSED, _ALLOW))
    special["socket"] = _look(0, _EQUAL, (_AF_ALG, _AF_VSOCK), _answer(errno.EAFNOSUPPORT), _ALLOW)
    special["personality"] = _look(0, _EQUAL, _PERSONALITIES, _ALLOW, _REFUSED)
    if not options.nested:
        special["clone"] = _look(0, _ANY_BIT, (_NAMESPACES,), _REFUSED, _ALLOW)
        special["unshare"] = _look(0, _ANY_BIT, (_NAMESPACES | _NEWTIME,), _REFUSED, _ALLOW)
        # Its flags are in a structure. C libraries then use clone.
        special["clone3"] = _MISSING
    elif not options.single_user:
        special |= dict.fromkeys(_XATTRS, _answer(errno.EOPNOTSUPP))
    numbers = {name: number for group in calls.values() for name, number in group.items()}
    return {numbers[name]: special.get(name, rule) for name, rule in rules.items()}


def _search(ranges: Sequence[tuple[int, Steps]]) -> Steps:
    """Return a balanced tree of comparisons that leads to the rule of a number."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    below, first = _search(ranges[:middle]), ranges[middle][0]
    if len(below) <= _FARTHEST:
        skip: Steps = ((_AT_LEAST, len(below), 0, first),)
    else:
        skip = (_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(below))
    return *skip, *below, *_search(ranges[middle:])


def pack(steps: Sequence[Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def load(filter_: bytes) -> None:
    """Load a packed filter into this process; needs CAP_SYS_ADMIN in its user namespace, or no_new_privs."""
    if not filter_:
        return
    code = ctypes.create_string_buffer(filter_, len(filter_))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(filter_) // 8, ctypes.addressof(code)))
    syscalls.prctl(syscalls.PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(described))
