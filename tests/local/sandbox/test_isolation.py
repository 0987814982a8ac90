"""What a container cannot do, as root of itself and, where root runs the tests, as root of the machine."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.specs import Mount
from tests.local.sandbox.boxes import Box, box, in_box, python_mounts, run

pytestmark = pytest.mark.usefixtures("namespaces")

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def _devices() -> dict[str, tuple[int, ...]]:
    found = {name: Path(f"/dev/{name}").stat() for name in DEVICES}
    return {name: (s.st_mode, s.st_rdev, s.st_ino, s.st_uid, s.st_gid, s.st_nlink) for name, s in found.items()}


@in_box
async def test_the_hosts_device_files_stay_as_they_are(box: Box) -> None:
    before = _devices()
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
    echo works > /dev/null && head -c 3 /dev/zero | wc -c
    """
    assert await box.shell("a", script) == (0, "3\n")
    assert _devices() == before


@in_box
async def test_settings_of_the_kernel_cannot_be_changed(box: Box) -> None:
    await box.pod("a")
    watched = [Path("/proc/sys/kernel/panic"), Path("/proc/sys/vm/swappiness"), Path("/proc/sys/fs/file-max")]
    before = [path.read_text() for path in watched]
    writes = "".join(f"echo 7 2>/dev/null > {path} && echo changed {path};" for path in watched)
    code, text = await box.shell("a", writes + "echo h 2>/dev/null > /proc/sysrq-trigger && echo sysrq; true")
    assert (code, text) == (0, "")
    assert [path.read_text() for path in watched] == before


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


def test_the_host_is_not_written_to_outside_of_mounts(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    kept.chmod(0o666)

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
            script = f"""
            echo mine > {tmp_path}/given/file || exit 1
            echo stolen 2>/dev/null > {kept}
            for d in / /etc /usr /usr/bin /var /opt /boot /root /home; do echo x 2>/dev/null > $d/pumice-was-here; done
            rm -f /etc/passwd; mv /etc/hostname /etc/gone 2>/dev/null; chmod 777 /etc/shadow 2>/dev/null
            true
            """
            mounts = (Mount(str(tmp_path / "given"), str(tmp_path / "given")),)
            assert (await made.shell("a", script, mounts=mounts))[0] == 0

    before = Path("/etc/passwd").stat(), Path("/etc/shadow").stat().st_mode
    run(story())
    assert (Path("/etc/passwd").stat(), Path("/etc/shadow").stat().st_mode) == before
    assert kept.read_text() == "as it was"
    assert (tmp_path / "given" / "file").read_text() == "mine\n"
    places = ("/", "/etc", "/usr", "/usr/bin", "/var", "/opt", "/boot", "/root", "/home")
    assert not any(os.path.lexists(f"{place}/pumice-was-here") for place in places)


def test_hidden_directories_are_empty(tmp_path: Path) -> None:
    deep = tmp_path / "state"
    deep.mkdir()
    (deep / "secret").write_text("secret")

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
            hidden = ("/home", "/root", "/var/lib", str(deep))
            script = f"ls -A /home /root /var/lib {tmp_path} 2>/dev/null | grep -v : ; cat {deep}/secret 2>/dev/null"
            code, text = await made.shell("a", script, hidden=hidden)
            assert (code, text.strip()) == (1, "")

    run(story())


def test_other_processes_are_neither_seen_nor_signalled(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as outsider:
        try:
            run(_look_for(outsider.pid, tmp_path))
            assert outsider.poll() is None
        finally:
            outsider.kill()


async def _look_for(outsider: int, tmp_path: Path) -> None:
    async with box(tmp_path) as one, box(tmp_path) as two:
        await one.pod("a")
        await one.pod("b")
        await two.pod("a")
        sleepers = [await one.start(one.spec("b", "sleep", "4321")), await two.start(two.spec("a", "sleep", "4321"))]
        own = one.sandbox.pid
        script = f"""
        ls -d /proc/[0-9]* | wc -l
        for pid in {outsider} {own} {os.getpid()} $(seq 2 60); do
            [ -d /proc/$pid ] || kill -9 $pid 2>/dev/null && echo killed $pid
        done
        cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '43[2]1'
        kill -9 -1 2>/dev/null; true
        """
        code, text = await one.shell("a", script)
        assert text.split()[1:] == ["0"], text
        assert int(text.split()[0]) <= 4
        assert code == 0
        for sleeper, made in zip(sleepers, (one, two), strict=True):
            assert (await made.sandbox.exec(sleeper.container, ["true"], {"PATH": os.defpath}, 10))[0] == 0


@in_box
async def test_the_first_process_gives_nothing_of_job_init_away(box: Box) -> None:
    """No descriptor but the three streams, no capability to administrate, none of the engine's variables."""
    os.environ["PUMICE_TEST_SECRET"] = "secret"
    await box.pod("a")
    program = (
        "import os; print(sorted(os.listdir('/proc/self/fd'))[:-1], sorted(os.environ), "
        "[line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')])"
    )
    ended, text = await box.run(box.spec("a", sys.executable, "-I", "-S", "-c", program, mounts=python_mounts()))
    descriptors, _, rest = text.partition("]")
    assert descriptors == "['0', '1', '2'"
    assert "SECRET" not in rest
    admin = 1 << 21
    assert int(rest.rpartition("['")[2].strip("']\n"), 16) & admin == 0
    assert ended.code == 0
    del os.environ["PUMICE_TEST_SECRET"]


KEYS = """
import ctypes, os, sys
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
session, join, search, unlink = -3, 1, 10, 9
libc = ctypes.CDLL(None, use_errno=True)
def key(*arguments):
    return libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments))
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="numbers of its system calls are not known")
def test_keys_of_the_user_s_session_are_not_found(tmp_path: Path) -> None:
    """The kernel keeps tickets and passwords for a login session, which whatever it starts inherits."""
    found: dict[str, Any] = {}
    exec(KEYS, found)
    key, control = found["key"], found["control"]
    # As a login does it.
    key(control, found["join"], None)
    number = key(found["add"], b"user", b"pumice-test", b"secret", 6, found["session"])
    if number < 0:
        pytest.skip("this kernel keeps no keys for us")

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            look = KEYS + 'print(key(control, search, session, b"user", b"pumice-test", 0) >= 0, flush=True)'
            _, text = await made.run(made.spec("a", sys.executable, "-I", "-c", look, mounts=python_mounts()))
            assert text == "False\n"

    try:
        run(story())
    finally:
        key(control, found["unlink"], number, found["session"])


@in_box
async def test_sockets_of_the_host_that_have_a_name_but_no_file_are_not_reached(box: Box) -> None:
    name = f"\0pumice-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        program = f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex({name!r}))"
        await box.pod("a")
        _, text = await box.run(box.spec("a", sys.executable, "-I", "-c", program, mounts=python_mounts()))
    assert text.strip() == str(errno.ECONNREFUSED)


@in_box
async def test_signals_are_as_a_program_expects_them(box: Box) -> None:
    await box.pod("a")
    _, text = await box.shell("a", "grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2")
    # 32 and 33 are the C library's own; it lets nobody change them, so they stay as they were inherited.
    others = sum(1 << (number - 1) for number in (signal.SIGCHLD, 32, 33))
    assert [int(value, 16) & ~others for value in text.split()] == [0, 0]
