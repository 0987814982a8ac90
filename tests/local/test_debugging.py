"""What the system call filter and the few capabilities of pods leave: debuggers, profilers, NUMA, `ping`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.init.seccomp import is_known, read_calls
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces

AS_ROOT = os.geteuid() == 0
NETWORK = ("--network=job", "--no-prefix")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    need_namespaces()
    return Workspace(tmp_path)


# Makes each call for processes of its own, and prints the result, or the errno. Some kernels do not know NUMA.
OWN_PROCESSES = r"""
import ctypes, errno, json, os, signal, sys

numbers = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(numbers[name]), *wide)
    print(name, result if result >= 0 else errno.errorcode[ctypes.get_errno()])

size = 1 << 16
libc.mmap.restype = ctypes.c_void_p
page = libc.mmap(None, ctypes.c_size_t(size), 3, 0x21, -1, ctypes.c_long(0))
ctypes.memset(page, 7, size)
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
target = os.pidfd_open(child)
buffer = ctypes.create_string_buffer(8)
local = (ctypes.c_long * 2)(ctypes.addressof(buffer), 8)
remote = (ctypes.c_long * 2)(page, 8)
call("process_vm_readv", child, local, 1, remote, 1, 0)
call("process_vm_writev", child, local, 1, remote, 1, 0)
call("kcmp", os.getpid(), child, 0, 0, 0)
call("pidfd_getfd", target, 0, 0)
call("process_madvise", target, remote, 1, -1, 0)  # what works on other processes needs a capability; this is no advice
attach, detach = 16, 17
call("ptrace", attach, child, 0, 0)
os.waitpid(child, 0)
call("ptrace", detach, child, 0, 0)
mask = ctypes.c_ulong(1)
mode = ctypes.c_int()
call("get_mempolicy", ctypes.byref(mode), 0, 0, 0, 0)
call("set_mempolicy", 2, ctypes.byref(mask), 64)
call("mbind", page, size, 2, ctypes.byref(mask), 64, 0)
call("set_mempolicy_home_node", page, size, 0, 0)
call("move_pages", 0, 1, (ctypes.c_long * 1)(page), 0, (ctypes.c_int * 1)(), 0)
call("migrate_pages", 0, 64, ctypes.byref(mask), ctypes.byref(mask))
os.kill(child, signal.SIGKILL)
"""


def test_calls_for_own_processes_end_as_they_do_outside_of_a_pod(workspace: Workspace) -> None:
    machine = os.uname().machine
    if not is_known(machine):
        pytest.skip(f"there is no list of system calls for {machine}")
    calls = read_calls(machine)
    words = ["-c", OWN_PROCESSES, json.dumps({**calls["added"], **calls["usual"]})]
    outside = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True).stdout
    result = workspace.run(job(task("only", "", container={"command": ["python3", *words]})), flags=NETWORK)
    assert (result.code, result.out) == (0, outside), result.err
    assert "ptrace 0\nptrace 0\n" in outside
    assert "process_madvise EINVAL\n" in outside
    assert {line.split()[0] for line in outside.splitlines()} >= calls["added"].keys()


# Sends an echo request by a socket that needs no capability, as a user and group.
PING = """
import os, socket, struct, sys
user = int(sys.argv[1])
if user:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as pinger:
    pinger.settimeout(100)
    pinger.sendto(struct.pack("!BBHHH", 8, 0, 0, 0, 1), ("127.0.0.1", 0))
    kind, *_ = struct.unpack_from("!BB", pinger.recv(100))
    print("reply" if kind == 0 else kind)
"""


@pytest.mark.parametrize(
    ("user", "dropped"),
    [
        pytest.param(0, ["ALL"], id="root without capabilities"),
        pytest.param(1234, [], id="other", marks=pytest.mark.skipif(not AS_ROOT, reason="pods have one user")),
        pytest.param((1 << 31) - 3, [], id="last", marks=pytest.mark.skipif(not AS_ROOT, reason="pods have one user")),
    ],
)
def test_ping_needs_no_capability(workspace: Workspace, user: int, dropped: list[str]) -> None:
    container = {
        "command": ["python3", "-c", PING, str(user)],
        "securityContext": {"capabilities": {"drop": dropped}},
    }
    result = workspace.run(job(task("only", "", container=container)), flags=NETWORK)
    assert (result.code, result.out) == (0, "reply\n"), result.err


# Some kernels let only ancestors look at a process, unless it says otherwise.
SLEEPS = """
import ctypes, time
PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)
ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
def innermost():
    print("up", flush=True)
    time.sleep(1000)
innermost()
"""
LOOKS = """
mkfifo up
python3 -c "$SLEEPS" > up &
read line < up
{look} $! 2>&1
kill $!
"""


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        pytest.param(
            "gdb -nx -batch -ex run -ex bt --args python3 -c 'import os; os.abort()'",
            "received signal SIGABRT",
            id="gdb starts a program",
            marks=pytest.mark.needs("gdb"),
        ),
        pytest.param("gdb -nx -batch -ex bt -p", "#1 ", id="gdb attaches", marks=pytest.mark.needs("gdb")),
        pytest.param("py-spy dump --pid", "innermost (<string>", id="py-spy"),
        pytest.param("py-spy dump --native --pid", "innermost (<string>", id="py-spy with native frames"),
    ],
)
def test_debuggers_and_profilers(workspace: Workspace, look: str, expected: str) -> None:
    env: list[dict[str, Any]] = [{"name": "SLEEPS", "value": SLEEPS}]
    result = workspace.run(job(task("only", LOOKS.format(look=look), container={"env": env})), flags=NETWORK)
    assert expected in result.out, (result.out, result.err)
    assert "not permitted" not in result.out
