"""Memory limits: by control group where there are any, by the watchdog elsewhere; the outcome is the same.

Attacks hold 96 MiB under a limit of 64 MiB, each in another way. To add one, add a row.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.specs import SandboxOptions
from tests.local.sandbox.boxes import Box, box, in_box, kernel, python_mounts, run
from tests.local.sandbox.memory_programs import MIB, attack, harmless

pytestmark = pytest.mark.usefixtures("namespaces")

OUT_OF_MEMORY = Ended(137, 9, oom=True)
LIMIT = 64 * MIB
HOG = "import time\nblocks = []\nwhile True:\n    blocks.append(b'x' * (8 << 20)); time.sleep(0.02)\n"

MEMFD = """
file = os.memfd_create("x")
for _ in range(96):
    os.write(file, BLOCK)
"""
OWN = "block = bytearray(b'x' * (96 * MIB))"
ATTACKS = [
    pytest.param(OWN, id="memory of its own"),
    pytest.param(MEMFD, id="memfd"),
    pytest.param(
        """
for number in range(12):
    held.append(os.memfd_create(str(number)))
    for _ in range(8):
        os.write(held[-1], BLOCK)
""",
        id="many memfds",
    ),
    pytest.param(
        f"""
def work():
    libc.unshare(0x400)  # CLONE_FILES
    {MEMFD.replace(chr(10), chr(10) + "    ")}
    hold()
threading.Thread(target=work).start()
""",
        id="memfd of a thread with descriptors of its own",
    ),
    pytest.param(
        """
for _ in range(12):
    libc.shmdt(ctypes.c_void_p(segment(8 * MIB)))
""",
        id="detached System V memory",
    ),
    pytest.param(
        """
if os.fork() == 0:
    for _ in range(12):
        libc.shmdt(ctypes.c_void_p(segment(8 * MIB)))
    os._exit(0)
os.wait()
""",
        id="System V memory whose creator has ended",
    ),
    pytest.param(
        "for _ in range(48):\n    libc.semget(0, 32000, 0o1600)",
        id="System V semaphores",
    ),
    pytest.param(
        """
message = ctypes.create_string_buffer(struct.pack("@l8192x", 1))
for _ in range(96 * 64):
    queue = libc.msgget(0, 0o1600)
    for _ in range(2):
        libc.msgsnd(queue, message, ctypes.c_size_t(8192), 0o4000)  # IPC_NOWAIT
""",
        id="System V messages",
    ),
    pytest.param("pairs(socket.SOCK_STREAM, BLOCK[:65536], 65536)", id="Unix sockets"),
    pytest.param("pairs(socket.SOCK_STREAM, BLOCK[:65536], 65536, close=True)", id="Unix sockets that were closed"),
    pytest.param("pairs(socket.SOCK_STREAM, b'x', 768, close=True)", id="small messages of closed Unix sockets"),
    pytest.param("pairs(socket.SOCK_DGRAM, BLOCK[:65536], 65536)", id="datagrams"),
    pytest.param("pairs(socket.SOCK_DGRAM, BLOCK[:65536], 65536, close=True)", id="datagrams of closed sockets"),
    pytest.param(
        """
size = 0
while size < 96 * MIB and len(held) < most // 2 - 50:
    held.append(os.pipe2(os.O_NONBLOCK))
    try:
        while True:
            size += os.write(held[-1][1], BLOCK)
    except BlockingIOError:
        pass
""",
        id="pipes",
    ),
    pytest.param(
        """
def work():
    os.read(ready, 1)
    block = bytearray(b'x' * (96 * MIB))
    hold()
ready, ended = os.pipe()
if os.fork() == 0:
    threading.Thread(target=work).start()
    os.close(ended)
    libc.syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)  # exit, of this thread only
os.close(ended)
os.wait()
""",
        id="memory of a process whose first thread has ended",
    ),
    pytest.param(
        """
block = mmap.mmap(-1, 60 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
block.madvise(mmap.MADV_NOHUGEPAGE)
for address in range(0, len(block), 2 * MIB):
    block[address]
""",
        id="page tables",
    ),
    pytest.param(
        """
with open("/dev/shm/file", "w+b") as file:
    file.write(BLOCK)
    file.truncate(48 * MIB)
    block = mmap.mmap(file.fileno(), 48 * MIB, mmap.MAP_PRIVATE)
for start in range(0, 48 * MIB, 4096):
    block[start] = 1
""",
        id="own copies of pages of a file in memory",
    ),
    pytest.param(
        """
ready, done = os.pipe()
if os.fork() == 0:
    os.close(done)
    os.read(ready, 1)
    with open("/dev/shm/file", "wb") as file:
        for _ in range(48):
            file.write(BLOCK)
    block = b'x' * (40 * MIB)
    hold()
os.chroot("/proc")
os.close(done)
os.wait()
""",
        id="files of a container whose first process changes its root directory",
    ),
    pytest.param(
        "for number in range(96 * 1024):\n    os.close(os.open(f'/dev/shm/{number}', os.O_CREAT))",
        id="empty files",
    ),
]
# Control groups of version 1 do not count these, those of version 2 do.
NETWORK_ATTACKS = [
    pytest.param(
        """
listener = socket.create_server(("127.0.0.1", 0))
size = 0
while size < 96 * MIB:
    client = socket.create_connection(listener.getsockname())
    held.append((client, listener.accept()))
    size += fill_connection(client)
""",
        id="TCP",
    ),
    pytest.param(
        """
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
size = 0
while size < 96 * MIB:
    held.append(socket.create_connection(listener.getsockname()))
    size += fill_connection(held[-1])
""",
        id="TCP connections that nobody accepts",
    ),
    pytest.param(
        """
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
size = 0
while size < 96 * MIB:
    held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    held[-1].bind(("127.0.0.1", 0))
    for _ in range(10):
        sender.sendto(BLOCK[:60000], held[-1].getsockname())
    size += held[-1].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
""",
        id="UDP",
    ),
    pytest.param(
        """
sender = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_USERSOCK)
sender.setblocking(False)
size = 0
while size < 96 * MIB:
    held.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_USERSOCK))
    held[-1].bind((0, 0))
    try:
        while True:
            size += sender.sendto(BLOCK[:32768], held[-1].getsockname())
    except BlockingIOError:
        pass
""",
        id="netlink",
    ),
]
RUN_PROGRAM = f'{shlex.quote(sys.executable)} -ISuc "$PROGRAM"'
NESTED_ATTACKS = [
    pytest.param("-Urm", RUN_PROGRAM, OWN, id="memory"),
    pytest.param("-Urmpf", RUN_PROGRAM, OWN, id="memory in a pid namespace"),
    pytest.param("-Urm", "mount -t tmpfs none /mnt && head -c 96M /dev/zero >/mnt/file; sleep 1000", "", id="tmpfs"),
    pytest.param(
        "-Uri",
        RUN_PROGRAM,
        "for _ in range(12): libc.shmdt(ctypes.c_void_p(segment(8 * MIB)))",
        id="System V memory",
    ),
    pytest.param(
        "-Urn",
        RUN_PROGRAM,
        "pairs(socket.SOCK_STREAM, BLOCK[:65536], 65536)",
        id="sockets",
    ),
]
TOUCH = "lambda: sum(block[::4096])"
HARMLESS = [
    pytest.param("block = b'x' * (100 * MIB)\nfork(4)", 200 * MIB, id="forked workers that share 100 MiB"),
    pytest.param(
        f"""
file = os.memfd_create("x")
for _ in range(40):
    os.write(file, BLOCK)
block = mmap.mmap(file, 40 * MIB)
fork(4, {TOUCH})
""",
        LIMIT,
        id="a memfd that five processes map",
    ),
    pytest.param(
        f"""
with open("/dev/shm/tensor", "w+b") as file:
    for _ in range(40):
        file.write(BLOCK)
    file.flush()
    block = mmap.mmap(file.fileno(), 40 * MIB)
fork(4, {TOUCH})
""",
        LIMIT,
        id="a file in /dev/shm that five processes map",
    ),
    pytest.param(
        f"""
block = (ctypes.c_ubyte * (40 * MIB)).from_address(segment(40 * MIB))
fork(4, {TOUCH})
""",
        LIMIT,
        id="System V memory that five processes attach",
    ),
    pytest.param(
        f"""
block = mmap.mmap(-1, 40 * MIB)
for start in range(0, 40 * MIB, MIB):
    block[start:start + MIB] = BLOCK
fork(4, {TOUCH})
""",
        LIMIT,
        id="shared memory without a name",
    ),
    pytest.param(
        "file = os.memfd_create('x')\nos.truncate(file, 1 << 40)\nos.write(file, BLOCK)",
        LIMIT,
        id="a memfd that is almost empty",
    ),
    pytest.param(
        """
while len(held) < 50:
    held.append(socket.socketpair())
    fill(held[-1][0], BLOCK[:65536], 200_000)
""",
        LIMIT,
        id="10 MiB in sockets",
    ),
    pytest.param("for _ in range(400): held.append(socket.socket())", LIMIT, id="sockets without connections"),
    pytest.param("for _ in range(100): held.append(os.pipe()); os.write(held[-1][1], b'x')", LIMIT, id="pipes"),
    pytest.param(
        """
paths = ("/tmp/first", "/tmp/second")
for path in paths:
    os.mkfifo(path)
if os.fork() == 0:
    block = b"x" * (40 * MIB)
    opened = [(os.POSIX_SPAWN_OPEN, 10, path, os.O_RDONLY, 0) for path in paths]
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=opened)
os.close(os.open(paths[0], os.O_WRONLY))  # when the child of vfork() has opened it, which now waits for the other
""",
        LIMIT,
        id="a child of vfork, which has the memory of its parent",
    ),
]


def _python(program: str, **changes: Any) -> dict[str, Any]:
    return {"env": {"PATH": os.defpath, "PROGRAM": program}, "memory": LIMIT, "mounts": python_mounts(), **changes}


@pytest.mark.parametrize("program", ATTACKS)
@in_box
async def test_no_way_leads_past_the_limit(box: Box, program: str) -> None:
    await box.pod("a")
    output = await box.python("a", attack(program), memory=LIMIT)
    assert (await output.rest(), await output.ended()) == ("", OUT_OF_MEMORY)


@pytest.mark.parametrize("program", NETWORK_ATTACKS)
@in_box
async def test_no_way_in_the_network_leads_past_the_limit(box: Box, program: str) -> None:
    if "memory" in kernel().limits:
        pytest.skip("it depends on the version of control groups")
    await box.pod("a")
    output = await box.python("a", attack(program), memory=LIMIT)
    assert (await output.rest(), await output.ended()) == ("", OUT_OF_MEMORY)


@pytest.mark.parametrize(("flags", "command", "program"), NESTED_ATTACKS)
def test_no_namespace_leads_past_the_limit(flags: str, command: str, program: str, tmp_path: Path) -> None:
    """In a run that permits nested user namespaces.

    The kernel may end the program first; then the shell has time to say so and to end with the same code.
    """

    async def story() -> None:
        async with box(tmp_path, options=SandboxOptions(nested=True)) as made:
            await made.pod("a")
            argv = ("unshare", flags, "sh", "-c", command)
            ended, text = await made.run(made.spec("a", *argv, **_python(attack(program))))
            assert (ended.code, ended.oom) == (OUT_OF_MEMORY.code, True)
            assert text in ("", "Killed\n")

    run(story())


@pytest.mark.parametrize(
    ("script", "program"),
    [
        pytest.param("$HOG & sleep 1000", OWN, id="a child"),
        pytest.param("($HOG &); sleep 1000", OWN, id="an orphan with the root directory of the container"),
        pytest.param("($HOG &); sleep 1000", f"os.chroot('/proc')\n{OWN}", id="an orphan with another root directory"),
    ],
)
def test_mount_namespaces_in_a_shared_pid_namespace_do_not_hide_processes(
    script: str, program: str, tmp_path: Path
) -> None:
    """The container with a limit ends, also where the other one may have started the process."""

    async def story() -> None:
        async with box(tmp_path, options=SandboxOptions(nested=True)) as made:
            await made.pod("a")
            holder = await made.start(made.spec("a", "sleep", "1000"))
            other = await made.start(made.spec("a", "sleep", "1000", share_pid_with=holder.container))
            hog = f"unshare -Urm {RUN_PROGRAM}"
            argv = ("sh", "-c", script.replace("$HOG", hog))
            spec = made.spec("a", *argv, **_python(attack(program), share_pid_with=holder.container))
            assert await (await made.start(spec)).ended() == OUT_OF_MEMORY
            assert (await made.exec(other.container, "true"))[0] == 0

    run(story())


@pytest.mark.parametrize(("program", "limit"), HARMLESS)
@in_box
async def test_a_program_below_its_limit_goes_on(box: Box, program: str, limit: int) -> None:
    """The end of another pod shows that the watchdog has looked everywhere."""
    await box.pod("a")
    await box.pod("b")
    output = await box.python("a", harmless(program), memory=limit)
    assert await output.line() == "ready"
    hog = await box.python("b", attack(MEMFD), memory=LIMIT)
    assert await hog.ended() == OUT_OF_MEMORY
    await box.sandbox.signal(output.container, signal.SIGUSR1)
    assert (await output.rest(), await output.ended()) == ("", Ended(0, 0, oom=False))


@in_box
async def test_what_another_container_of_the_pod_has_is_not_charged(box: Box) -> None:
    """Sockets and System V memory belong to namespaces that both share."""
    await box.pod("a")
    await box.pod("b")
    both = (
        "address = segment(24 * MIB)\nfor _ in range(120): held.append(socket.socketpair()); fill(held[-1][0], BLOCK)"
    )
    other = await box.python("a", harmless(both), memory=128 * MIB)
    output = await box.python("a", harmless(""), memory=32 * MIB)
    for each in (other, output):
        assert await each.line() == "ready"
    hog = await box.python("b", attack(MEMFD), memory=LIMIT)
    assert await hog.ended() == OUT_OF_MEMORY
    for each in (output, other):
        await box.sandbox.signal(each.container, signal.SIGUSR1)
        assert (await each.rest(), await each.ended()) == ("", Ended(0, 0, oom=False))


@in_box
async def test_a_container_over_its_limit_ends_with_137_and_its_neighbour_goes_on(box: Box) -> None:
    await box.pod("a")
    neighbour = await box.start(box.spec("a", "sleep", "1000", memory=100 * MIB))
    output = await box.python("a", HOG, memory=100 * MIB)
    assert await output.ended() == OUT_OF_MEMORY
    assert (await box.exec(neighbour.container, "true"))[0] == 0


@in_box
async def test_a_child_over_the_limit_ends_the_whole_container(box: Box) -> None:
    await box.pod("a")
    script = f"'{sys.executable}' -I -S -c \"$PROGRAM\"; echo survived"
    spec = box.spec("a", "sh", "-c", script, **_python(HOG, memory=100 * MIB))
    assert await box.run(spec) == (OUT_OF_MEMORY, "")


@in_box
async def test_a_kill_below_the_limit_is_not_out_of_memory(box: Box) -> None:
    await box.pod("a")
    ended, _ = await box.run(box.spec("a", "sh", "-c", "sh -c 'kill -9 $$'; exit $?", memory=200 * MIB))
    assert ended == Ended(137, 0, oom=False)


@in_box
async def test_control_groups_limit_processes_and_cpu(box: Box) -> None:
    if not {"pids", "cpu"} <= kernel().limits:
        pytest.skip("this user may not create control groups")
    await box.pod("a")
    code, text = await box.shell("a", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; true", pids=5)
    assert (code, "fork" in text) == (2, True), text
    spin = "import time; e = time.monotonic() + 1\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
    output = await box.python("a", spin, cpu_quota=0.25)
    assert float(await output.rest()) < 0.6
