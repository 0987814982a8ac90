"""Memory of sockets and System V IPC, in the namespaces of a program."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

SIZE = 160_000
COMMON = f"""
import ctypes, json, os, socket, struct, sys
from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import idmap
from pumice.engines.local.sandbox.memory.namespace_memory import NamespaceMemory
from pumice.engines.local.sandbox.net.netlink import Netlink
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
DATA = bytes({SIZE})
idmap.enter_user_namespace()
syscalls.unshare(syscalls.NEWNET | syscalls.NEWIPC)
Netlink().link_up(1)
memory = NamespaceMemory()
inode = None
"""
PRINT = """
sizes = memory.sockets()
size = sum(sizes.values()) if inode is None else sizes[inode]
print(json.dumps({"sockets": size, "pid": os.getpid(), "ipc": memory.ipc()}))
"""
TCP = """
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
sender.sendall(DATA)
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


def _read(program: str) -> dict[str, Any]:
    argv = [sys.executable, "-c", f"{COMMON}\n{program}\n{PRINT}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("program", "least", "most"),
    [
        pytest.param("", 0, 20_000, id="nothing but netlink"),
        pytest.param("idle = [socket.socket() for _ in range(100)]", 0, 20_000, id="sockets without connections"),
        pytest.param(
            "a, b = socket.socketpair()\na.sendall(DATA)\ninode = os.fstat(a.fileno()).st_ino",
            SIZE,
            2 * SIZE,
            id="the sender of a pair",
        ),
        pytest.param(
            "a, b = socket.socketpair()\na.sendall(DATA)\na.close()\ninode = 0", SIZE, 300_000, id="a closed sender"
        ),
        pytest.param(
            "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            "for _ in range(2): a.send(DATA[:80_000])\n"
            "a.close()\ninode = 0",
            SIZE,
            300_000,
            id="datagrams of a closed sender",
        ),
        pytest.param(TCP, SIZE, 4 * SIZE, id="TCP, received or still to be sent"),
        pytest.param(
            "a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))\n"
            "b.bind(('127.0.0.1', 0))\n"
            "for _ in range(4): a.sendto(DATA[:40_000], b.getsockname())\n"
            "inode = os.fstat(b.fileno()).st_ino",
            SIZE,
            3 * SIZE,
            id="UDP",
        ),
        pytest.param(
            "a = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
            "a.setsockopt(263, 5, struct.pack('=4I', 1 << 16, 16, 1 << 11, 512))\n"
            "inode = os.fstat(a.fileno()).st_ino",
            1 << 20,
            1 << 21,
            id="a ring of packets",
        ),
    ],
)
def test_sockets(program: str, least: int, most: int) -> None:
    found = _read(program)
    assert least <= found["sockets"] <= most
    assert found["ipc"] == []


def test_system_v_memory_counts_if_it_is_resident() -> None:
    found = _read("number = libc.shmget(0, 1 << 20, 0o1600)\nctypes.memset(libc.shmat(number, None, 0), 1, 1 << 18)")
    [[size, creator, segment]] = found["ipc"]
    assert (size, creator, segment is not None) == (1 << 18, found["pid"], True)


@pytest.mark.parametrize(
    ("program", "least"),
    [
        pytest.param("libc.semget(0, 1000, 0o1600)", 64_000, id="semaphores"),
        pytest.param(
            "message = ctypes.create_string_buffer(struct.pack('@l', 1) + bytes(1000))\n"
            "queue = libc.msgget(0, 0o1600)\n"
            "for _ in range(10): libc.msgsnd(queue, message, ctypes.c_size_t(1000), 0)",
            10_000,
            id="messages",
        ),
    ],
)
def test_other_objects_count(program: str, least: int) -> None:
    [[size, _, segment]] = _read(program)["ipc"]
    assert least <= size < 2 * least
    assert segment is None
