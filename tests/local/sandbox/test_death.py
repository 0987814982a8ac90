"""Whichever process dies, and whenever: nothing of the job is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.engines.local.sandbox import scratch
from pumice.engines.local.sandbox.sandbox_errors import SandboxError
from tests.conftest import seed
from tests.local.sandbox.boxes import Box, box, in_box, run
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("namespaces")

# An engine that starts pods as fast as it can, each with processes in the background, until it is killed.
ENGINE = """
import asyncio, os, sys
from pathlib import Path
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, RootFs

async def main(directory, marker):
    print("begin", flush=True)
    sandbox = await Sandbox.start(f"killed{marker}", Path(directory))
    null = os.open("/dev/null", os.O_WRONLY)
    for index in range(200):
        pod = f"p{index}"
        await sandbox.create_pod(pod, f"10.77.0.{index + 2}", pod)
        script = f"sleep {marker} & setsid sleep {marker} & sleep {marker}"
        spec = ContainerSpec(
            id=pod, pod=pod, argv=("sh", "-c", script), env={"PATH": os.defpath}, cwd="/", root=RootFs(),
            memory=1 << 30,
        )
        await sandbox.start_container(spec, null, null)
        print(index, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main(*sys.argv[1:]))
"""


def _processes(*marks: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(mark in command for mark in marks):
                found.append(f"{name} {command}")
    return found


def _until_empty(find: Callable[[], list[str]]) -> list[str]:
    end = time.monotonic() + PATIENCE
    while (found := find()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def _groups(marker: str) -> list[str]:
    roots = ("/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in ("memory", "cpu", "pids", "unified")))
    own = {line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()}
    directories = {Path(f"{root}{path}") for root in roots for path in (*own, "/")}
    return [str(path) for directory in directories for path in directory.glob(f"pumice-killed{marker}*")]


def _scratch_directories(parent: Path) -> list[str]:
    """After the next run has swept. A lock is held for a moment longer than /proc shows its process."""
    scratch.sweep(parent)
    return [path.name for path in parent.iterdir() if path.is_dir()]


def _start_engine(directory: Path, marker: str) -> subprocess.Popen[str]:
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(directory), marker],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert engine.stdout is not None
    assert engine.stdout.readline() == "begin\n"
    return engine


def _kill(engine: subprocess.Popen[str]) -> None:
    engine.kill()
    engine.communicate()


def _nothing_left(directory: Path, marker: str) -> None:
    assert _until_empty(lambda: _processes(f"sleep {marker}", str(directory))) == []
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    assert _groups(marker) == []
    assert _until_empty(lambda: _scratch_directories(directory)) == []


def test_kill_9_of_the_engine_at_random_moments(tmp_path: Path) -> None:
    """While the sandbox starts, or after any of the first pods."""
    draw = random.Random(seed())
    interfaces = sorted(os.listdir("/sys/class/net"))
    for attempt in range(15):
        marker = f"70{os.getpid()}{attempt:02}"
        directory = tmp_path / str(attempt)
        directory.mkdir()
        engine = _start_engine(directory, marker)
        assert engine.stdout is not None
        for index in range(draw.choice((0, 0, 1, 4))):
            assert engine.stdout.readline() == f"{index}\n"
        time.sleep(0.1 * draw.random())
        _kill(engine)
        _nothing_left(directory, marker)
        assert sorted(os.listdir("/sys/class/net")) == interfaces


def _victim(made: Box, name: str) -> int:
    job_init = made.sandbox.pid
    if name == "launcher":
        # The only child of job-init that has become no other program.
        children = Path(f"/proc/{job_init}/task/{job_init}/children").read_text().split()
        program = Path(f"/proc/{job_init}/cmdline").read_bytes()
        [launcher] = [pid for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes() == program]
        return int(launcher)
    return job_init if name == "job-init" else made.sandbox._process.pid


@pytest.mark.parametrize("victim", ["supervisor", "job-init", "launcher"])
def test_kill_9_of_the_processes_above_the_containers(tmp_path: Path, victim: str) -> None:
    marker = f"71{os.getpid()}{len(victim)}"

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            output = await made.start(made.spec("a", "sh", "-c", f"sleep {marker} & echo up; sleep {marker}"))
            assert await output.line() == "up"
            os.kill(_victim(made, victim), signal.SIGKILL)
            with pytest.raises(SandboxError, match="job-init has ended"):
                await output.ended()
            with pytest.raises(SandboxError):
                await made.sandbox.create_pod("b", "10.77.0.99", "b")

    run(story())
    _nothing_left(tmp_path, marker)


def test_pods_survive_while_the_engine_is_stopped_and_end_when_it_is_killed(tmp_path: Path) -> None:
    marker = f"72{os.getpid()}"
    engine = _start_engine(tmp_path, marker)
    assert engine.stdout is not None
    assert engine.stdout.readline() == "0\n"
    engine.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, engine.pid, os.WSTOPPED)
    assert _processes(f"sleep {marker}") != []
    _kill(engine)
    _nothing_left(tmp_path, marker)


def test_close_waits_until_nothing_is_left(tmp_path: Path) -> None:
    marker = f"73{os.getpid()}"

    async def story() -> None:
        async with box(tmp_path) as made:
            for index in range(8):
                await made.pod(f"p{index}")
                await made.start(made.spec(f"p{index}", "sh", "-c", f"setsid sleep {marker} & sleep {marker}"))
            assert len(_processes(f"sleep {marker}")) >= 8
        assert _processes(f"sleep {marker}", str(tmp_path)) == []
        assert _scratch_directories(tmp_path) == []
        await made.sandbox.close()
        with pytest.raises(SandboxError, match="the sandbox is closed"):
            await made.pod("b")

    run(story())


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    async def story() -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            async with box(tmp_path) as made:
                await _use(made)
        assert len(os.listdir("/proc/self/fd")) == before

    run(story())


@in_box
async def test_job_init_keeps_no_descriptor_of_what_has_ended(box: Box) -> None:
    def count() -> int:
        return len(os.listdir(f"/proc/{box.sandbox.pid}/fd"))

    await _use(box)
    before = count()
    for _ in range(5):
        await _use(box)
    assert count() == before


async def _use(made: Box) -> None:
    """A pod with containers that end, are killed or cannot start, and commands in between."""
    await made.pod("a", "10.77.0.50")
    await made.shell("a", "true")
    output = await made.start(made.spec("a", "sleep", "1000"))
    await made.exec(output.container, "true")
    with pytest.raises(TimeoutError):
        await made.sandbox.exec(output.container, ["sleep", "1000"], {"PATH": os.defpath}, 0.01)
    with pytest.raises(ConnectionRefusedError):
        await made.sandbox.connect("a", 1)
    with pytest.raises(Exception, match="command not found"):
        await made.start(made.spec("a", "nosuch"))
    await made.sandbox.remove_pod("a")
    made.close()
