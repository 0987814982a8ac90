"""A real sshd for each of two plain processes, at once, reached by their names."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from tests.local.running import need_login
from tests.local.sandbox.boxes import PATH, run

HOSTS = File("/etc/hosts", b"10.77.0.10 job-a-0.job job-a-0\n10.77.0.11 job-b-0.job job-b-0\n")
PODS = {"job-a-0": "10.77.0.10", "job-b-0": "10.77.0.11"}
PATIENCE = 40
# As jobs start it: some stay with it, some do not, and some name a port.
SERVERS = {
    "job-a-0": "mkdir -p /var/run/sshd; exec /usr/sbin/sshd -D -e -p 22",
    "job-b-0": "mkdir -p /var/run/sshd; /usr/sbin/sshd -e; sleep 1000",
}


def _key(place: Path, name: str) -> bytes:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
    return (place / name).read_bytes()


def _keys(place: Path) -> Path:
    keys = place / "keys"
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
def test_each_is_reached_by_its_names_and_nothing_is_left(tmp_path: Path) -> None:
    need_login()
    keys, host_key = _keys(tmp_path), _key(tmp_path, "host")
    marker = f"86{os.getpid()}"

    async def story() -> None:
        sandbox = await ProcessSandbox.start("job", tmp_path / "stage", warn=lambda _: None)
        with (tmp_path / "log").open("wb") as log:
            try:
                for pod, address in PODS.items():
                    await sandbox.create_pod(pod, address, pod)
                    await sandbox.start_container(_spec(pod, SERVERS[pod], keys, host_key), log.fileno(), log.fileno())
                await asyncio.to_thread(_until_all_listen, tmp_path / "log")
                found = {}
                for name in ("job-a-0", "job-b-0.job"):
                    command = ["ssh", "-q", name, "echo $PUMICE_ROOT; exit 7"]
                    found[name] = await sandbox.exec("job-a-0/main", command, {}, 30)
                # What is started by ssh has a session of its own, and ends with the pod all the same.
                await sandbox.exec("job-a-0/main", ["ssh", "-q", "job-b-0", f"sleep {marker} >&- 2>&- &"], {}, 30)
                await asyncio.to_thread(_until_it_sleeps, marker)
            finally:
                await sandbox.close()
        roots = {name: output.decode().strip().rpartition("/")[2] for name, (_, output) in found.items()}
        assert roots == {"job-a-0": "job-a-0.main", "job-b-0.job": "job-b-0.main"}, (tmp_path / "log").read_text()
        assert {code for code, _ in found.values()} == {7}

    run(story())
    assert _sleepers(marker) == []


def _until_all_listen(log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while (said := log.read_text()).count("Server listening on 127.") < len(PODS):
        assert time.monotonic() < end, said
        time.sleep(0.02)


def _until_it_sleeps(marker: str) -> None:
    """What a shell puts into the background may begin after the shell has ended."""
    end = time.monotonic() + PATIENCE
    while not _sleepers(marker):
        assert time.monotonic() < end
        time.sleep(0.02)


def _sleepers(marker: str) -> list[str]:
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in shown.splitlines() if line == f"sleep {marker}"]
