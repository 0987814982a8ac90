"""The size of tmpfs, in a mount namespace of a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.local.sandbox.boxes import need_namespaces

COMMON = """
import os, sys
from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import idmap
from pumice.engines.local.sandbox.memory.memory_files import nested_tmpfs, tmpfs_mounts, tmpfs_size
outer = tmpfs_mounts(os.getpid())
idmap.enter_user_namespace()
syscalls.unshare(syscalls.NEWNS)
syscalls.mount("tmpfs", "/mnt", "tmpfs")
with open("/mnt/file", "wb") as file:
    file.write(bytes(1 << 20))
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param("", ["True"], id="one"),
        pytest.param("outer |= tmpfs_mounts(os.getpid())", [], id="one that is known"),
        pytest.param("os.mkdir('/mnt/a')\nsyscalls.mount('tmpfs', '/mnt/a', 'tmpfs')", ["False", "True"], id="two"),
        pytest.param("syscalls.mount('tmpfs', '/mnt', 'tmpfs')", ["False"], id="one that covers the other"),
    ],
)
def test_nested_tmpfs_is_measured(program: str, printed: list[str]) -> None:
    need_namespaces()
    code = f"{COMMON}\n{program}\nfor size in nested_tmpfs(os.getpid(), outer).values(): print(size > 1 << 20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (sorted(done.stdout.split()), done.stderr) == (printed, "")


def test_empty_files_take_memory() -> None:
    need_namespaces()
    code = f"""{COMMON}
before = tmpfs_size("/mnt")
for number in range(1000):
    os.close(os.open(f"/mnt/{{number}}", os.O_CREAT))
print(tmpfs_size("/mnt") - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(done.stdout) >= 1000 * 1000, done.stderr
