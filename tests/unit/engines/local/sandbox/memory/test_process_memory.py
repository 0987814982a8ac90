"""Memory of real processes: what is shared counts once, what is counted elsewhere not at all."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pumice.engines.local.sandbox.memory.descriptor_memory import memory_device
from pumice.engines.local.sandbox.memory.process_memory import (
    CountedFiles,
    device_text,
    proportional,
    read_status,
    read_statuses,
)

MIB = 1 << 20
DEVICE = device_text(memory_device())
MAPS = """
import mmap, os, sys
file = os.memfd_create("x")
os.truncate(file, 32 << 20)
block = mmap.mmap(file, 32 << 20, int(sys.argv[1]))
for start in range(0, 32 << 20, 4096):
    block[start] = 1
print(os.fstat(file).st_ino, flush=True)
sys.stdin.read()
"""
ENDED_FIRST_THREAD = """
import ctypes, os, sys, threading
def hold():
    while open(f"/proc/self/task/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z":
        pass
    block = bytearray(b"x" * (32 << 20))
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""


@contextmanager
def program(code: str, *arguments: str) -> Iterator[tuple[int, str]]:
    """The pid of a program, and the first line that it prints."""
    argv = [sys.executable, "-ISc", code, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()


@pytest.mark.parametrize(
    ("private", "counted", "is_counted"),
    [
        pytest.param(False, True, False, id="a file that is counted by itself"),
        pytest.param(False, False, True, id="a file that is not"),
        pytest.param(True, True, True, id="own copies of pages of a file that is counted"),
    ],
)
def test_files_that_are_counted_by_themselves(private: bool, counted: bool, is_counted: bool) -> None:
    with program(MAPS, str(mmap.MAP_PRIVATE if private else mmap.MAP_SHARED)) as (pid, inode):
        files = CountedFiles((), DEVICE, {int(inode)} if counted else set())
        size = proportional(read_statuses([pid]), files)
    assert (size > 32 * MIB) is is_counted, size


def test_a_process_lives_on_without_its_first_thread() -> None:
    with program(ENDED_FIRST_THREAD) as (pid, _):
        status = read_status(pid)
        assert status is not None
        assert status.pid != pid
        assert status.resident > 32 * MIB
        assert proportional([status]) > 32 * MIB


def test_a_process_that_has_ended_has_no_status() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert read_status(process.pid) is None
    assert read_status(os.getpid()) is not None
