"""What a container cannot do, as root of itself and, where root runs the tests, as root of the machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.specs import Mount
from tests.local.sandbox.boxes import Box, box, in_box, run

pytestmark = pytest.mark.usefixtures("namespaces")

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def _devices() -> dict[str, tuple[int, ...]]:
    found = {name: Path(f"/dev/{name}").stat() for name in DEVICES}
    return {name: (s.st_mode, s.st_rdev, s.st_ino, s.st_uid, s.st_gid, s.st_nlink) for name, s in found.items()}


@in_box
async def test_devices_and_settings_of_the_host_cannot_be_changed(box: Box) -> None:
    settings = [Path("/proc/sys/kernel/panic"), Path("/proc/sys/vm/swappiness"), Path("/proc/sys/fs/file-max")]
    before = _devices(), [path.read_text() for path in settings]
    await box.pod("a")
    script = """
    for device in null zero full random urandom tty; do
        chmod 600 /dev/$device && echo changed mode
        chown 1:1 /dev/$device && echo changed owner
        rm -f /dev/$device && echo removed
        mv /dev/$device /dev/moved && echo moved
    done 2>/dev/null
    mknod /dev/mine c 1 3 2>/dev/null && echo made
    mknod /tmp/disk b 254 0 2>/dev/null && echo made
    echo h 2>/dev/null > /proc/sysrq-trigger && echo sysrq
    echo works > /dev/null && head -c 3 /dev/zero | wc -c
    """
    writes = "".join(f"echo 7 2>/dev/null > {path} && echo changed {path};" for path in settings)
    assert await box.shell("a", writes + script) == (0, "3\n")
    assert (_devices(), [path.read_text() for path in settings]) == before


@in_box
async def test_a_read_only_mount_cannot_be_made_writable(box: Box) -> None:
    await box.pod("a")
    script = """
    mount -o remount,rw,bind /boot 2>/dev/null && echo remounted
    mount -t tmpfs none /mnt 2>/dev/null && echo mounted
    umount /proc/sys 2>/dev/null && echo uncovered
    unshare -Urm mount -o remount,rw,bind /boot 2>/dev/null && echo remounted in a namespace
    unshare -Urm umount /proc/sys 2>/dev/null && echo uncovered in a namespace
    unshare -Urmpf mount -t proc proc /tmp 2>/dev/null && unshare -Urmpf sh -c \
        'mount -t proc proc /tmp && echo 7 > /tmp/sys/kernel/panic' 2>/dev/null && echo found another proc
    true
    """
    assert await box.shell("a", script) == (0, "")


DIRECTORIES = ("/", "/etc", "/usr", "/usr/bin", "/var", "/opt", "/boot", "/root", "/home")


def _system_files() -> tuple[object, ...]:
    written = [directory for directory in DIRECTORIES if os.path.lexists(f"{directory}/pumice-was-here")]
    return Path("/etc/passwd").stat(), Path("/etc/shadow").stat().st_mode, written


@in_box
async def test_only_mounts_of_the_host_are_written_to(box: Box, tmp_path: Path) -> None:
    given, kept = tmp_path / "given", tmp_path / "kept"
    given.mkdir()
    kept.write_text("as it was")
    kept.chmod(0o666)
    before = _system_files()
    await box.pod("a")
    script = f"""
    echo mine > {given}/file || exit 1
    echo stolen 2>/dev/null > {kept}
    for d in {" ".join(DIRECTORIES)}; do echo x 2>/dev/null > $d/pumice-was-here; done
    rm -f /etc/passwd; mv /etc/hostname /etc/gone 2>/dev/null; chmod 777 /etc/shadow 2>/dev/null
    true
    """
    assert (await box.shell("a", script, mounts=(Mount(str(given), str(given)),)))[0] == 0
    assert _system_files() == before
    assert kept.read_text() == "as it was"
    assert (given / "file").read_text() == "mine\n"


@in_box
async def test_hidden_directories_are_empty(box: Box, tmp_path: Path) -> None:
    deep = tmp_path / "state"
    deep.mkdir()
    (deep / "secret").write_text("secret")
    await box.pod("a")
    hidden = ("/home", "/root", "/var/lib", str(deep))
    script = f"ls -A /home /root /var/lib {tmp_path} 2>/dev/null | grep -v : ; cat {deep}/secret 2>/dev/null"
    code, text = await box.shell("a", script, hidden=hidden)
    assert (code, text.strip()) == (1, "")


def test_other_processes_are_neither_visible_nor_signalled(tmp_path: Path) -> None:
    async def story(outsider: int) -> None:
        async with box(tmp_path) as one, box(tmp_path) as two:
            for made, pod in ((one, "a"), (one, "b"), (two, "a")):
                await made.pod(pod)
            sleepers = [(one, await one.start(one.spec("b", "sleep", "4321")))]
            sleepers.append((two, await two.start(two.spec("a", "sleep", "4321"))))
            script = f"""
            ls -d /proc/[0-9]* | wc -l
            for pid in {outsider} {one.sandbox.pid} {os.getpid()} $(seq 2 60); do
                [ -d /proc/$pid ] || kill -9 $pid 2>/dev/null && echo killed $pid
            done
            cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '43[2]1'
            kill -9 -1 2>/dev/null; true
            """
            code, text = await one.shell("a", script)
            own, *others = text.split()
            assert (code, others, int(own) <= 4) == (0, ["0"], True), text
            for made, sleeper in sleepers:
                assert (await made.exec(sleeper.container, "true"))[0] == 0

    with subprocess.Popen(["sleep", "1000"]) as outsider:
        try:
            run(story(outsider.pid))
            assert outsider.poll() is None
        finally:
            outsider.kill()


@in_box
async def test_a_container_inherits_nothing_of_job_init(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor but the three streams, not CAP_SYS_ADMIN, none of the engine's variables."""
    monkeypatch.setenv("PUMICE_TEST_SECRET", "secret")
    await box.pod("a")
    program = """
import os
print(*sorted(os.listdir('/proc/self/fd'))[:-1])
print(*sorted(os.environ))
print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')))
"""
    output = await box.python("a", program)
    descriptors, variables, capabilities = (await output.rest()).splitlines()
    assert descriptors == "0 1 2"
    assert set(variables.split()) <= {"HOME", "LC_CTYPE", "PATH"}
    sys_admin = 1 << 21
    assert int(capabilities, 16) & sys_admin == 0


KEYS = """
import ctypes, os, sys
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
session, join, search, unlink = -3, 1, 10, 9
libc = ctypes.CDLL(None, use_errno=True)
def key(*arguments):
    return libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments))
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="system call numbers are not known")
def test_keys_of_the_login_session_are_not_found(tmp_path: Path) -> None:
    """The kernel keeps Kerberos tickets and passwords for a login session, and processes inherit it."""
    found: dict[str, Any] = {}
    exec(KEYS, found)
    key, control = found["key"], found["control"]
    key(control, found["join"], None)
    number = key(found["add"], b"user", b"pumice-test", b"secret", 6, found["session"])
    if number < 0:
        pytest.skip("this kernel keeps no keys for this user")

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            search = KEYS + 'print(key(control, search, session, b"user", b"pumice-test", 0) >= 0)'
            assert await (await made.python("a", search)).rest() == "False\n"

    try:
        run(story())
    finally:
        key(control, found["unlink"], number, found["session"])


@in_box
async def test_abstract_unix_sockets_of_the_host_are_not_reached(box: Box) -> None:
    name = f"\0pumice-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        await box.pod("a")
        output = await box.python("a", f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex({name!r}))")
        assert await output.rest() == f"{errno.ECONNREFUSED}\n"


def test_signals_that_the_caller_ignores_or_blocks_are_reset(tmp_path: Path) -> None:
    """As under nohup, or in the background of a shell."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN)
    script = "grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2"

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            texts = [(await made.shell("a", script))[1]]
            output = await made.start(made.spec("a", "sleep", "1000"))
            texts.append((await made.exec(output.container, "sh", "-c", script))[1].decode())
            # The C library reserves signals 32 and 33 and does not reset them.
            reserved = 1 << 31 | 1 << 32
            assert [int(value, 16) & ~reserved for text in texts for value in text.split()] == [0] * 4

    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        run(story())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})
        for number, handler in handlers.items():
            signal.signal(number, handler)
