"""What pods use is recorded while they run, and `pumice top` shows it: in namespaces and as plain processes."""

from __future__ import annotations

import json
import sys

import pytest

from pumice.client.history_values import pods
from pumice.client.local.local_backend import LocalBackend
from pumice.store.sample_file import read_samples
from tests.local.commands import Terminal
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal

# Each pod holds memory, and computes until told to end.
BUSY = "import os; held = bytearray(b'x' * (48 << 20))\nwhile not os.path.exists('go'): pass"
MIB = 1 << 20
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"


@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_the_use_of_each_pod_is_recorded_and_shown(isolation: str, terminal: Terminal) -> None:
    if isolation == "namespaces":
        need_namespaces()
    busy = task("busy", "", container={"command": ["python3", "-c", BUSY]})
    idle = task("idle", "while [ ! -e go ]; do sleep 0.2; done")
    process = terminal.workspace.start(job(busy, idle), flags=["--isolation", isolation])
    client = LocalBackend({**terminal.workspace.env})
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    run = client.find_stored("trial")
    # Two samples, since it holds its memory.
    terminal.until(lambda: sum(each.memory > 48 * MIB for each in read_samples(run.directory, pod="busy-0")) >= 2)
    listed = terminal("top").out.splitlines()
    assert listed[0].split() == ["RUN", "POD", "CPU", "MEMORY"]
    assert sorted(line.split()[1] for line in listed[1:]) == ["busy-0", "idle-0"]
    shown = [json.loads(line) for line in terminal("top", "trial", "--json").out.splitlines()]
    use = {each["pod"]: each for each in shown}
    assert use["busy-0"]["run"] == "trial:1"
    assert use["busy-0"]["cpuSeconds"] > use["idle-0"]["cpuSeconds"]
    assert use["busy-0"]["cpu"] > 0
    assert 48 * MIB < use["busy-0"]["memory"] < 200 * MIB
    assert 0 < use["idle-0"]["memory"] < 48 * MIB
    assert len(json.loads(terminal("top", "-o", "json").out)["items"]) == 2
    env = {**terminal.workspace.env, "TERM": "xterm"}
    live = OnTerminal(
        [sys.executable, "-c", MAIN, "top", "trial", "--interval", "1s"], terminal.workspace.directory, env
    )
    live.read_until("busy-0")
    (terminal.workspace.directory / "go").touch()
    # The view ends with the run; what was drawn last stays.
    assert live.read_to_end() == 0
    left = [line.split()[1] for line in live.screen.lines if line.startswith("trial:1 ")]
    # One pod may have ended when the last sample was taken.
    assert left in (["busy-0", "idle-0"], ["busy-0"], ["idle-0"])
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    recorded = read_samples(run.directory, pod="busy-0", attempt=1)
    assert [each.cpu_seconds for each in recorded] == sorted(each.cpu_seconds for each in recorded)
    assert read_samples(run.directory, attempt=2) == []
    after = terminal("top", "trial:1")
    assert after.err == "trial:1 does not run: its last sample\n"
    assert "busy-0" in after.out
    assert terminal("top").err == "no pod runs\n"


def test_an_interval_that_is_too_short_is_refused(terminal: Terminal) -> None:
    assert terminal("top", "--interval", "10ms", code=2).err.startswith("--interval: 10ms: must be 0.5s or more")
    assert terminal("top", "none", code=2).err.startswith("none: no such run")


NVIDIA_SMI = """#!/bin/sh
case "$*" in
*-L*) echo 'GPU 0: Standing for a GPU (UUID: GPU-aa)'; echo 'GPU 1: Standing for a GPU (UUID: GPU-bb)' ;;
*utilization*) echo '0, GPU-aa, 10, 100'; echo '1, GPU-bb, 90, 2048' ;;
*query-gpu=index,uuid*) echo '0, GPU-aa'; echo '1, GPU-bb' ;;
esac
"""


def test_the_gpus_of_a_pod_are_recorded_and_measured(terminal: Terminal) -> None:
    """A program stands for nvidia-smi, because the machines of these tests have no GPU."""
    directory = terminal.workspace.directory
    program = directory / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    terminal.workspace.environ["PATH"] = f"{program.parent}:{terminal.workspace.env['PATH']}"
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    waits = "echo $CUDA_VISIBLE_DEVICES; while [ ! -e go ]; do sleep 0.1; done"
    process = terminal.workspace.start(job(task("w", waits, container=limits)), flags=["--isolation", "process"])
    client = LocalBackend({**terminal.workspace.env})
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    run = client.find_stored("trial")
    terminal.until(lambda: bool(read_samples(run.directory)))
    (line,) = terminal("top").out.splitlines()[1:]
    assert line.split()[-5:] == ["50%", "of", "2", "2.1", "GiB"]
    (directory / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "w-0  0,1\n"), err
    (pod,) = pods(run.history())
    assert (pod.phase, list(pod.gpus)) == ("Succeeded", ["0", "1"])
    assert [(each.gpus, each.gpu, each.gpu_memory) for each in read_samples(run.directory)][-1] == (2, 50.0, 2148 * MIB)
