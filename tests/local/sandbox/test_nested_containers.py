"""A sandbox inside of a container: mounts in /etc and /var, a covered and read-only /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.tree import ROOT
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("namespaces")

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount, RootFs

async def main():
    sandbox = await Sandbox.start("job", Path(sys.argv[1]) / "scratch")
    try:
        for pod, address in (("a", "10.77.0.2"), ("b", "10.77.0.3")):
            await sandbox.create_pod(pod, address, pod)
        spec = ContainerSpec(
            id="c", pod="a", argv=("sh", "-c", sys.argv[2]), env={"PATH": os.environ["PATH"]}, cwd="/data/new/work",
            root=RootFs(), mounts=(Mount(sys.argv[1], "/mnt/inner/new"), Mount(sys.argv[1], "/var/cache/new")),
        )
        await sandbox.start_container(spec, 1, 2)
        ended = await sandbox.ended("c")
        print("code", ended.code, flush=True)
        try:
            await sandbox.connect("b", 9)
        except ConnectionRefusedError:
            print("b was reached")
    finally:
        await sandbox.close()

asyncio.run(main())
"""


def _run_in(setup: str, script: str, directory: Path, flags: str = "-Urmpf") -> str:
    engine = (sys.executable, "-c", PROGRAM, str(directory), script)
    done = subprocess.run(
        ["unshare", flags, "--mount-proc", "sh", "-ec", f'{setup}\nexec "$@"', "sh", *engine],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout + done.stderr


def test_mounts_in_etc_var_and_mnt(tmp_path: Path) -> None:
    setup = """
    mount --bind /etc/passwd /etc/hostname
    mount -t tmpfs none /var/cache; echo shown > /var/cache/file; mkdir /var/cache/old
    """
    script = """set -e
    echo x > /etc/new; echo y > /etc/hostname; cat /etc/hostname; ls /etc/passwd
    cat /var/cache/file; cd /var; touch lib/new log/new tmp/new; touch cache/new/x; ls cache; pwd
    """
    text = _run_in(setup, script, tmp_path)
    assert text == "y\n/etc/passwd\nshown\nfile\nnew\nold\n/var\ncode 0\nb was reached\n"
    assert (tmp_path / "x").exists()


def test_a_covered_and_read_only_proc(tmp_path: Path) -> None:
    setup = "mount -t tmpfs none /proc/acpi; mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys"
    script = "ls /proc/acpi; [ -e /proc/self/status ] && echo there; exit 3"
    assert _run_in(setup, script, tmp_path) == "there\ncode 3\nb was reached\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees the settings of the machine")
def test_an_outer_proc_is_read_only(tmp_path: Path) -> None:
    setup = "mount -t tmpfs none /proc/acpi"
    script = "echo 7 2>/dev/null > /proc/sys/kernel/panic && echo changed; echo done"
    before = Path("/proc/sys/kernel/panic").read_text()
    assert _run_in(setup, script, tmp_path, flags="-mpf") == "done\ncode 0\nb was reached\n"
    assert Path("/proc/sys/kernel/panic").read_text() == before
