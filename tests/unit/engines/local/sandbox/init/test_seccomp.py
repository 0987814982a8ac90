"""The program of the filter, run by a small interpreter: the kernel's own is tested in tests/local/test_escapes.py."""

from __future__ import annotations

import errno
import struct

import pytest

from pumice.engines.local.sandbox.init.seccomp import call_numbers, is_known, program

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
ALLOWED, ERRNO = 0x7FFF0000, 0x00050000
CREATE, READ = 0o101, 0


def answer(machine: str, call: str | int, *arguments: int, audit: int = 0, **options: bool) -> int:
    """What the filter returns for a call: an errno, or -1 if it is allowed."""
    number = call_numbers(machine)[call] if isinstance(call, str) else call
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, audit or AUDIT[machine], 0, *values)
    chosen = {"confined": True, "single_user": True, "nested": True, **options}
    steps, at, loaded = list(program(machine, **chosen)), 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x06:
                return -1 if value == ALLOWED else value & ~ERRNO
            case _:
                matches = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                at += yes if matches else no


@pytest.mark.parametrize("machine", AUDIT)
@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        pytest.param("keyctl", (0,), errno.ENOSYS, id="kernel keys"),
        pytest.param("bpf", (), errno.ENOSYS, id="bpf"),
        pytest.param("io_uring_setup", (), errno.ENOSYS, id="io_uring"),
        pytest.param("openat2", (), errno.ENOSYS, id="openat2"),
        pytest.param("socket", (2, 1, 0), -1, id="an ordinary socket"),
        pytest.param("socket", (40, 1, 0), errno.EAFNOSUPPORT, id="vsock"),
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
def test_answers(machine: str, call: str, arguments: tuple[int, ...], expected: int) -> None:
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
    assert answer(machine, "setxattr", single_user=False, confined=False) == -1


@pytest.mark.parametrize("machine", AUDIT)
def test_user_namespaces(machine: str) -> None:
    for call in ("clone", "unshare"):
        assert answer(machine, call, 0x10000000) == -1
        assert answer(machine, call, 0x10020000, nested=False) == errno.EPERM
        assert answer(machine, call, 0x20000, nested=False) == -1
    assert answer(machine, "clone3") == -1
    assert answer(machine, "clone3", nested=False) == errno.ENOSYS


def test_calls_of_another_architecture_do_not_exist() -> None:
    assert answer("x86_64", 0, audit=0x40000003) == errno.ENOSYS
    assert answer("x86_64", 0x40000000) == errno.ENOSYS
    assert answer("x86_64", 0, audit=0x40000003, confined=False) == -1
    assert is_known("aarch64")
    assert not is_known("s390x")
