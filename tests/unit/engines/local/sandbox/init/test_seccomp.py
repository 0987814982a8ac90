"""The program of the filter, run by a small interpreter: the kernel's own is tested in tests/local/test_escapes.py."""

from __future__ import annotations

import errno
import functools
import struct
from collections.abc import Sequence

import pytest

from pumice.engines.local.sandbox.init import seccomp
from pumice.engines.local.sandbox.init.seccomp import Options, Step, is_known, pack, program, read_calls

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
ALLOWED, ERRNO = 0x7FFF0000, 0x00050000
CREATE, READ = 0o101, 0
NEWUSER, NEWNS, NEWTIME, FILES, SIGCHLD = 0x10000000, 0x20000, 0x80, 0x400, 17


def run(steps: Sequence[Step], number: int, audit: int, *arguments: int) -> tuple[int, int]:
    """What a program returns for a call: an errno, or -1 if it is allowed; and how many steps it takes."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    at = loaded = taken = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        taken += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x05:
                at += value
            case 0x06:
                return (-1 if value == ALLOWED else value & ~ERRNO), taken
            case _:
                matches = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                at += yes if matches else no


@functools.cache
def numbers(machine: str) -> dict[str, int]:
    return {name: number for group in read_calls(machine).values() for name, number in group.items()}


@functools.cache
def steps_of(machine: str, options: Options) -> list[Step]:
    return program(machine, read_calls(machine), options)


def answer(machine: str, call: str | int, *arguments: int, audit: int = 0, **options: bool) -> int:
    number = numbers(machine)[call] if isinstance(call, str) else call
    chosen = Options(**{"confined": True, "single_user": True, "nested": True, **options})
    return run(steps_of(machine, chosen), number, audit or AUDIT[machine], *arguments)[0]


@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        pytest.param("getppid", (), -1, id="an ordinary call"),
        pytest.param("ptrace", (), -1, id="debugging"),
        pytest.param("mbind", (), -1, id="memory policy"),
        pytest.param("chroot", (), -1, id="chroot, for which containers have the capability"),
        pytest.param("keyctl", (0,), errno.ENOSYS, id="kernel keys"),
        pytest.param("bpf", (), errno.ENOSYS, id="bpf"),
        pytest.param("io_uring_setup", (), errno.ENOSYS, id="io_uring"),
        pytest.param("openat2", (), errno.ENOSYS, id="openat2"),
        pytest.param(410, (), errno.ENOSYS, id="a number between calls"),
        pytest.param(600, (), errno.ENOSYS, id="a number behind all calls"),
        pytest.param(0xFFFFFFFF, (), errno.ENOSYS, id="the highest number"),
        pytest.param("socket", (2, 1, 0), -1, id="an ordinary socket"),
        pytest.param("socket", (39, 1, 0), -1, id="a socket between the refused ones"),
        pytest.param("socket", (38, 5, 0), errno.EAFNOSUPPORT, id="ciphers of the kernel"),
        pytest.param("socket", (40, 1, 0), errno.EAFNOSUPPORT, id="vsock"),
        pytest.param("socket", (40 | 1 << 32, 1, 0), errno.EAFNOSUPPORT, id="vsock, as the kernel truncates it"),
        pytest.param("personality", (0xFFFFFFFF,), -1, id="the question which personality"),
        pytest.param("personality", (0x40000,), -1, id="a debugger fixes the addresses"),
        pytest.param("personality", (0x400000,), errno.EPERM, id="executable data"),
        pytest.param("fchmod", (3, 0o755), -1, id="fchmod"),
        pytest.param("fchmod", (3, 0o1777), -1, id="the sticky bit"),
        pytest.param("fchmod", (3, 0o4755), errno.EPERM, id="set-user-id"),
        pytest.param("fchmod", (3, 0o2755), errno.EPERM, id="set-group-id"),
        pytest.param("fchmodat", (3, 0, 0o4755), errno.EPERM, id="fchmodat"),
        pytest.param("fchmodat2", (3, 0, 0o4755), errno.EPERM, id="fchmodat2"),
        pytest.param("mknodat", (3, 0, 0o104755), errno.EPERM, id="mknodat"),
        pytest.param("openat", (3, 0, CREATE, 0o644), -1, id="create"),
        pytest.param("openat", (3, 0, CREATE, 0o4755), errno.EPERM, id="create with set-id"),
        pytest.param("openat", (3, 0, READ, 0o4755), -1, id="read; the mode is whatever the register holds"),
        pytest.param("setxattr", (), -1, id="attributes"),
    ],
)
def test_answers(machine: str, call: str | int, arguments: tuple[int, ...], expected: int) -> None:
    assert answer(machine, call, *arguments) == expected
    assert answer(machine, call, *arguments, confined=False) == -1


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("chmod", (0, 0o4755)), ("creat", (0, 0o2755)), ("mknod", (0, 0o104755)), ("open", (0, CREATE, 0o4755))],
)
def test_old_calls_of_one_architecture(call: str, arguments: tuple[int, ...]) -> None:
    assert answer("x86_64", call, *arguments) == errno.EPERM


@pytest.mark.parametrize("machine", AUDIT)
def test_options(machine: str) -> None:
    assert answer(machine, "setgroups") == 0
    assert answer(machine, "setgroups", confined=False) == 0
    assert answer(machine, "setgroups", single_user=False) == -1
    assert answer(machine, "setxattr", single_user=False) == errno.EOPNOTSUPP
    assert answer(machine, "setxattr", single_user=False, nested=False) == -1
    assert steps_of(machine, Options(confined=False, single_user=False, nested=False)) == []


@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize(
    ("call", "arguments", "refusal"),
    [
        pytest.param("clone", (NEWUSER | SIGCHLD,), errno.EPERM, id="a user namespace"),
        pytest.param("clone", (NEWNS | SIGCHLD,), errno.EPERM, id="a mount namespace"),
        pytest.param("clone", (SIGCHLD,), -1, id="fork"),
        pytest.param("clone3", (), errno.ENOSYS, id="clone3, whose flags are in a structure"),
        pytest.param("unshare", (NEWUSER | NEWNS,), errno.EPERM, id="unshare"),
        pytest.param("unshare", (NEWTIME,), errno.EPERM, id="a time namespace"),
        pytest.param("unshare", (FILES,), -1, id="unshare what is no namespace"),
        pytest.param("mount", (), errno.EPERM, id="mount"),
        pytest.param("setns", (), errno.EPERM, id="setns"),
        pytest.param("fsopen", (), errno.EPERM, id="fsopen"),
        pytest.param("clock_settime", (), errno.EPERM, id="the clock"),
    ],
)
def test_namespaces(machine: str, call: str, arguments: tuple[int, ...], refusal: int) -> None:
    assert answer(machine, call, *arguments) == -1
    for single_user in (True, False):
        assert answer(machine, call, *arguments, nested=False, single_user=single_user) == refusal


def test_calls_of_another_architecture_do_not_exist() -> None:
    assert answer("x86_64", 0, audit=0x40000003) == errno.ENOSYS
    assert answer("x86_64", 0x40000000) == errno.ENOSYS
    assert answer("x86_64", 0, audit=0x40000003, confined=False) == -1
    assert is_known("aarch64")
    assert not is_known("s390x")


@pytest.mark.parametrize("machine", AUDIT)
def test_every_number_gets_the_answer_of_its_group(machine: str) -> None:
    """With arguments that no rule refuses; few comparisons lead to each."""
    expected = {"usual": -1, "added": -1, "privileged": errno.EPERM, "refused": errno.ENOSYS}
    answers = {number: expected[group] for group, calls in read_calls(machine).items() for number in calls.values()}
    answers |= {numbers(machine)["clone3"]: errno.ENOSYS, numbers(machine)["unshare"]: -1}
    steps = steps_of(machine, Options(confined=True, single_user=False, nested=False))
    wrong = {
        number: found
        for number in range(1000)
        if (found := run(steps, number, AUDIT[machine]))[0] != answers.get(number, errno.ENOSYS) or found[1] > 20
    }
    assert wrong == {}


def test_a_jump_over_more_steps_than_a_comparison_can() -> None:
    ranges = [(2 * number, seccomp._answer(number)) for number in range(1000)]
    steps = [(0x20, 0, 0, 0), *seccomp._search(ranges)]
    assert [run(steps, number, 0)[0] for number in range(2000)] == [number // 2 for number in range(2000)]
    assert max(step[1] for step in steps) <= 255
    assert len(pack(steps)) == 8 * len(steps)
