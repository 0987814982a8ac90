"""A real sshd for each of two plain processes, reached by their names."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from tests.local.running import need_login
from tests.local.sandbox.boxes import PATH, run
from tests.patience import PATIENCE

HOSTS = File("/etc/hosts", b"10.77.0.10 job-a-0.job job-a-0\n10.77.0.11 job-b-0.job job-b-0\n")
PODS = {"job-a-0": "10.77.0.10", "job-b-0": "10.77.0.11"}
# Some jobs run sshd in the foreground, others in the background, and some name a port.
SERVERS = {
    "job-a-0": "mkdir -p /var/run/sshd; exec /usr/sbin/sshd -D -e -p 22",
    "job-b-0": "mkdir -p /var/run/sshd; /usr/sbin/sshd -e; sleep 1000",
}


def _key(directory: Path, name: str) -> bytes:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True)
    return (directory / name).read_bytes()


def _keys(directory: Path) -> Path:
    keys = directory / "keys"
    keys.mkdir()
    _key(keys, "id_ed25519")
    (keys / "id_ed25519.pub").rename(keys / "authorized_keys")
    return keys


def _spec(pod: str, script: str, keys: Path, host_key: bytes) -> ContainerSpec:
    return ContainerSpec(
        id=f"{pod}/main",
        pod=pod,
        argv=("sh", "-c", script),
        env={"PATH": PATH, "WHO": pod},
        cwd="/home",
        root=RootFs(),
        hidden=("/home", "/root"),
        mounts=(Mount(str(keys), "/root/.ssh", read_only=True),),
        files=(HOSTS, File("/etc/ssh/ssh_host_ed25519_key", host_key, 0o600)),
    )


@pytest.mark.needs("ssh-keygen", "sshd")
def test_pods_are_reached_by_their_names_and_nothing_is_left(tmp_path: Path) -> None:
    need_login()
    keys, host_key = _keys(tmp_path), _key(tmp_path, "host")
    marker = f"86{os.getpid()}"

    async def story() -> None:
        sandbox = await ProcessSandbox.start("job", tmp_path / "scratch", warn=lambda _: None)
        with (tmp_path / "log").open("wb") as log:
            try:
                for pod, address in PODS.items():
                    await sandbox.create_pod(pod, address, pod)
                    await sandbox.start_container(_spec(pod, SERVERS[pod], keys, host_key), log.fileno(), log.fileno())
                await _until(lambda: (tmp_path / "log").read_text().count("Server listening on 127.") == len(PODS))
                found = {}
                for name in ("job-a-0", "job-b-0.job"):
                    command = ["ssh", "-q", name, "echo $PUMICE_ROOT; exit 7"]
                    found[name] = await sandbox.exec("job-a-0/main", command, {}, PATIENCE)
                # What ssh starts has its own session, but ends with the pod.
                await sandbox.exec("job-a-0/main", ["ssh", "-q", "job-b-0", f"sleep {marker} >&- 2>&- &"], {}, PATIENCE)
                await _until(lambda: _sleepers(marker))
            finally:
                await sandbox.close()
        roots = {name: output.decode().strip().rpartition("/")[2] for name, (_, output) in found.items()}
        assert roots == {"job-a-0": "job-a-0.main", "job-b-0.job": "job-b-0.main"}, (tmp_path / "log").read_text()
        assert {code for code, _ in found.values()} == {7}

    run(story())
    assert _sleepers(marker) == []


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await asyncio.sleep(0.02)


def _sleepers(marker: str) -> list[str]:
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if line == f"sleep {marker}"]
