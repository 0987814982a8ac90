"""What a pod can use up: memory in files, processes, watches of files, disk; and sockets that it cannot reach."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.local.running import Workspace, extra_object, job, scripted, task
from tests.local.sandbox.boxes import Box, in_box, kernel, need_namespaces

FILL = """
import os, sys
for directory in ("/dev/shm", "/tmp", "/memory"):
    if os.path.isdir(directory):
        with open(f"{directory}/file", "wb") as file:
            for _ in range(24):
                file.write(bytes(1 << 20))
        print(directory, flush=True)
# A limit without control groups is checked now and then.
import time; time.sleep(20)
"""
FORK = """
import os, signal, sys
children = []
try:
    while len(children) < 400:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
print("more" if len(children) == 400 else "limited")
for child in children:
    os.kill(child, signal.SIGKILL)
"""
WATCHES = """
import ctypes, signal
opened = 0
while ctypes.CDLL(None).inotify_init1(0) >= 0:
    opened += 1
print(opened, flush=True)
signal.pause()
"""
SOCKETS = """
import os, socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            os.chdir(os.path.dirname(path))
            client.connect(os.path.basename(path))
            print("reached")
        except OSError:
            print("refused")
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_files_in_memory_count_as_memory_and_have_a_bound(workspace: Workspace) -> None:
    """24 MiB fit below a limit of 64 MiB; twice as much in files, with Python itself, or in three places, does not."""
    limit = {"resources": {"limits": {"memory": "64Mi"}}}
    volume = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
    memory = {"volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}]}
    python = scripted(sys.executable, "-c", FILL)
    free = "df -k /dev/shm | tail -1 | awk '{print $2}'; stat -f -c %i / /dev/shm"
    done = workspace.run(
        job(
            task("fill", "", container={**python, **limit, **volume}, pod=memory),
            task("bound", free, container=limit),
            minAvailable=1,
        ),
        flags=["--network=job", "--json"],
    )
    events = [json.loads(line) for line in done.out.splitlines()]
    ends = {each["pod"]: each.get("reason") for each in events if each["type"] == "pod" and "code" in each}
    assert ends["fill-0"] == "OOMKilled", done.out
    size, root, shared = [each["line"] for each in events if each["type"] == "log" and each["pod"] == "bound-0"]
    assert size == str(64 << 10)
    assert root == shared
    watched = "memory: watched, not limited by the kernel" in events[0]["notes"]
    assert watched == ("memory" not in kernel().limits)


def test_processes_are_limited_by_the_pod(workspace: Workspace) -> None:
    """Without control groups by the job: then the limit has 256 more for each pod."""
    python = scripted(sys.executable, "-c", FORK)
    flags = ["--network=job", "--no-prefix", "--pids-limit"]
    limited = workspace.run(job(task("only", "", container=python)), flags=[*flags, "100"])
    assert limited.out == "limited\n", limited.err
    assert workspace.run(job(task("only", "", container=python)), flags=[*flags, "1000"]).out == "more\n"


@in_box
async def test_watches_of_files_are_left_for_the_user(box: Box) -> None:
    """The kernel counts inotify instances of a user in all namespaces."""
    await box.pod("a")
    output = await box.python("a", WATCHES)
    assert int(await output.line()) <= 64
    descriptor = ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_CLOEXEC)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    os.close(descriptor)


def test_sockets_of_the_machine_are_not_reached_through_bound_directories(workspace: Workspace) -> None:
    """The working directory, a hostPath and --mount; sockets of the pod itself work."""
    paths = []
    listeners = []
    for name in ("here", "volume", "extra"):
        directory = workspace.directory / name
        directory.mkdir()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(
            os.path.relpath(directory / "s", Path.cwd()) if len(str(directory)) > 90 else str(directory / "s")
        )
        listener.listen()
        listeners.append(listener)
        paths.append(str(directory / "s"))
    script = f"import socket; a = socket.socket(socket.AF_UNIX); a.bind('/tmp/s'); a.listen()\n{SOCKETS}"
    python = scripted(sys.executable, "-c", script, paths[0], "/v/s", "/x/s", "/tmp/s")
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    pod = {"volumes": [{"name": "v", "hostPath": {"path": str(workspace.directory / "volume")}}]}
    result = workspace.run(
        job(task("only", "", container={**python, **mounts}, pod=pod)),
        flags=["--network=job", "--no-prefix", "--mount", f"{workspace.directory / 'extra'}:/x"],
    )
    for listener in listeners:
        listener.close()
    assert result.out == "refused\n" * 3 + "reached\n", result.err


def test_disk_use_is_shown_and_can_be_bounded(workspace: Workspace) -> None:
    claim = extra_object(
        "PersistentVolumeClaim",
        "data",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    )
    volumes = [{"name": "c", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "e", "emptyDir": {}}]
    mounts = {"volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("c", "e")]}
    write = "head -c 3145728 /dev/zero > /c/file; head -c 2097152 /dev/zero > /e/file"
    only = task("only", write, container=mounts, pod={"volumes": volumes})
    result = workspace.run(job(only), claim, flags=["--network=job"])
    assert "\ndisk: claims 3 MiB, emptyDir 2 MiB\n" in result.err, result.err
    assert (workspace.state / "claims" / "default" / "data" / "file").stat().st_size == 3 << 20
    only = task("only", f"{write}; sleep 50", container=mounts, pod={"volumes": volumes})
    result = workspace.run(job(only), claim, flags=["--network=job", "--disk-limit", "1Mi"])
    assert result.code == 1, result.err
    assert "uses more of the disk than 1 MiB (disk-limit): claims 3 MiB" in result.err
