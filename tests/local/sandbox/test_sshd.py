"""A real sshd on port 22 of a pod, reached from another, also without root: MPI jobs need it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.specs import File
from tests.local.sandbox.boxes import PATH, Box, in_box

pytestmark = pytest.mark.usefixtures("namespaces")

SSHD = shutil.which("sshd", path=PATH)
# An ordinary user has one user only, so sshd must drop its privileges to that one.
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nsshd:x:0:0::/run/sshd:/usr/sbin/nologin\n"
SHADOW = b"root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n"


def _key(directory: Path, name: str) -> tuple[bytes, bytes]:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True)
    return (directory / name).read_bytes(), (directory / f"{name}.pub").read_bytes()


def _files(directory: Path) -> tuple[File, ...]:
    (host, _), (own, public) = _key(directory, "host"), _key(directory, "own")
    return (
        File("/etc/ssh/ssh_host_ed25519_key", host, 0o600),
        File("/etc/ssh/sshd_config", b"UsePAM no\n"),
        File("/etc/passwd", PASSWD),
        File("/etc/group", b"root:x:0:\nsshd:x:0:\n"),
        File("/etc/shadow", SHADOW, 0o600),
        File("/etc/hosts", b"127.0.0.1 localhost\n10.77.0.20 worker\n10.77.0.21 master\n"),
        File("/root/.ssh/authorized_keys", public, 0o600),
        File("/root/.ssh/id_ed25519", own, 0o600),
    )


@pytest.mark.needs("ssh-keygen")
@pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="no sshd")
@in_box
async def test_a_command_over_ssh(box: Box, tmp_path: Path) -> None:
    files = _files(tmp_path)
    await box.pod("worker", "10.77.0.20")
    await box.pod("master", "10.77.0.21")
    serve = f"mkdir -p /run/sshd; exec {SSHD} -D -e"
    output = await box.start(box.spec("worker", "sh", "-c", serve, files=files))
    while "listening on 0.0.0.0 port 22" not in (line := await output.line()):
        assert line, "sshd has ended"
    ssh = ("ssh", "-q", "-o", "StrictHostKeyChecking=no", "worker", "hostname; id -u; exit 9")
    ended, text = await box.run(box.spec("master", *ssh, files=files))
    assert (ended.code, text) == (9, "worker\n0\n")
