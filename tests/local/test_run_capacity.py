"""`pumice run` and what the machine has: gangs, pods that wait, several runs at once, GPUs, limits, many pods."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.scheduling.machine import read_machine
from tests.conftest import SOAK
from tests.local.running import SEARCH_PATH, Manifest, Workspace, job, task
from tests.local.sandbox.boxes import kernel, need_namespaces
from tests.patience import PATIENCE, RUN_TIMEOUT

# A job that holds what it has until somebody makes this file.
MANY = 256 if SOAK else 64
HOLD = "echo up; until [ -e release ]; do sleep 0.2; done"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def wants(**requests: Any) -> Manifest:
    return {"resources": {"requests": {name.replace("gpu", "nvidia.com/gpu"): each for name, each in requests.items()}}}


def gpu(count: int) -> Manifest:
    return {"resources": {"limits": {"nvidia.com/gpu": count}}}


@pytest.fixture
def with_gpus(workspace: Workspace) -> Workspace:
    """As if there were three GPUs: what there really are is hidden."""
    program = workspace.directory / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor n in 0 1 2; do echo "GPU $n: made up"; done\n')
    program.chmod(0o755)
    workspace.environ["PATH"] = f"{program.parent}:{SEARCH_PATH}"
    if Path("/proc/driver/nvidia/gpus").exists() or Path("/dev/nvidia0").exists():
        pytest.skip("this machine has GPUs of its own")
    return workspace


@contextmanager
def holding(workspace: Workspace, *tasks: Manifest) -> Iterator[None]:
    """Another run of the same user, for as long as it takes."""
    process = workspace.start(job(*tasks))
    try:
        assert "up" in process.stdout.readline()
        yield
        (workspace.directory / "release").touch()
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    finally:
        process.kill()
        process.communicate()


def all_cpus() -> str:
    return f"{int(read_machine().cpu_share * 1000)}m"


def test_pods_beyond_the_gang_start_when_there_is_room(workspace: Workspace) -> None:
    script = 'mkdir alone || exit 3; echo "$HOSTNAME"; sleep 0.2; rmdir alone'
    result = workspace.run(job(task("only", script, 3, container=wants(cpu=all_cpus())), minAvailable=1))
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) == 3
    assert "warning: trial-only-1 waits until there is room for it on this machine (cpu: " in result.err
    # That others wait for the same is not told again.
    assert result.err.count("waits until") == 1


def test_a_gang_that_does_not_fit_is_refused_at_once(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo started", 3, container=wants(cpu=all_cpus())), minAvailable=2))
    assert result.code == 2
    assert "job.yaml: needs 2 pods at once (minAvailable), 1 fits on this machine" in result.err
    assert "hint: --scale only=1, or lower resources.requests.cpu (job.yaml:" in result.err
    assert "started" not in result.out


def test_a_job_for_a_cluster_runs_with_fit_as_the_refusal_says(workspace: Workspace) -> None:
    """Half of a rack, on this machine: the last line of the refusal is the command that runs it."""
    rack = {"limits": {"rdma/hca": 1, "example.com/npu": 8, "cpu": "640", "memory": "100Ti"}}
    manifest = job(task("only", "echo up", 2, container={"resources": rack}))
    result = workspace.run(manifest, flags=["--no-prefix"])
    assert result.code == 2
    assert result.err.splitlines()[-1] == "pumice run job.yaml --timeout 150s --no-prefix --fit"
    result = workspace.run(manifest, flags=["--no-prefix", "--fit"])
    assert (result.code, result.out) == (0, "up\nup\n"), result.err
    assert "  fit: only: example.com/npu 8 is left out: this machine has none\n" in result.err
    assert "  fit: only: cpu limit 640 is lowered to " in result.err
    (workspace.directory / "pumice.toml").write_text("fit = true\n")
    assert workspace.run(manifest).code == 0


def test_what_another_run_has_reserved_is_not_there(workspace: Workspace) -> None:
    claim = wants(cpu=all_cpus())
    with holding(workspace, task("holder", HOLD, container=claim)):
        result = workspace.run(job(task("only", "true", container=claim)), flags=["--no-wait"])
        assert result.code == 2, result.err
        assert "job.yaml: does not fit now: cpu: " in result.err
        assert "; trial:1 holds " in result.err
        result = workspace.run(job(task("only", "true", container=claim)), flags=["--max-wait", "0.2s"])
        assert result.code == 2, result.err
        assert "no room within 0.2s: cpu: " in result.err
        # Who wants nothing in particular is not held up.
        assert workspace.run(job(task("only", "true"))).code == 0
    assert workspace.run(job(task("only", "true", container=claim))).code == 0


def test_runs_wait_for_room_in_turn_and_say_why(workspace: Workspace) -> None:
    claim = wants(cpu=all_cpus())
    waiting = []
    with holding(workspace, task("holder", HOLD, container=claim)):
        for number, position in enumerate(("first", "second")):
            process = workspace.start(
                job(task("only", f"echo {number} >> order", container=claim)), flags=[RUN_TIMEOUT]
            )
            waiting.append(process)
            line = next(line for line in process.stderr if line.startswith("waits: "))
            assert "; trial:1 holds " in line
            assert line.endswith(f"; {position} in queue\n")
    for process in waiting:
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert (workspace.directory / "order").read_text() == "0\n1\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_waits_can_be_stopped(workspace: Workspace, number: int) -> None:
    claim = wants(cpu=all_cpus())
    with holding(workspace, task("holder", HOLD, container=claim)):
        process = workspace.start(job(task("only", "echo started", container=claim)))
        assert any(line.startswith("waits: ") for line in process.stderr)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == (130 if number == signal.SIGINT else -9)
        assert "started" not in out
    assert workspace.run(job(task("only", "true", container=claim)), flags=["--no-wait"]).code == 0


def test_further_pods_of_an_elastic_job_queue_behind_a_waiting_gang(workspace: Workspace) -> None:
    half = f"{int(read_machine().cpu_share * 500)}m"
    holder = task("holder", 'until [ -e "go$VC_TASK_INDEX" ]; do sleep 0.2; done; echo $VC_TASK_INDEX >> order', 3)
    holder["template"]["spec"]["containers"][0] |= wants(cpu=half)
    elastic = workspace.start(job(holder, minAvailable=2, plugins={"env": []}))
    assert any("waits until there is room" in line for line in elastic.stderr)
    gang = workspace.start(job(task("only", "echo gang >> order", container=wants(cpu=all_cpus()))))
    assert any(line.startswith("waits: ") for line in gang.stderr)
    (workspace.directory / "go0").touch()
    assert any("waits behind trial:2" in line for line in elastic.stderr)
    (workspace.directory / "go1").touch()
    (workspace.directory / "go2").touch()
    for process in (elastic, gang):
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert (workspace.directory / "order").read_text().split() == ["0", "1", "gang", "2"]


def test_a_run_that_was_killed_has_reserved_nothing(workspace: Workspace) -> None:
    claim = wants(cpu=all_cpus())
    process = workspace.start(job(task("holder", HOLD, container=claim)))
    try:
        assert "up" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    assert workspace.run(job(task("only", "true", container=claim))).code == 0


def test_gpus_are_distinct_across_pods_and_containers(with_gpus: Workspace) -> None:
    script = 'touch "ready$HOSTNAME"; until [ $(ls -d ready* | wc -l) = 2 ]; do sleep 0.2; done; echo '
    pods = task("only", f"{script} $CUDA_VISIBLE_DEVICES", 2, container=gpu(1))
    bare = task("bare", "echo ${CUDA_VISIBLE_DEVICES-none}")
    result = with_gpus.run(job(pods, bare), flags=["--no-prefix"])
    assert result.code == 0, result.err
    assert sorted(result.out.split()) == ["0", "1", "none"]

    pair = task("pair", "echo $CUDA_VISIBLE_DEVICES", container=gpu(2))
    (first,) = pair["template"]["spec"]["containers"]
    pair["template"]["spec"]["containers"].append({**first, "name": "other", **gpu(1)})
    result = with_gpus.run(job(pair), flags=["--no-prefix"])
    assert result.code == 0, result.err
    assert sorted(result.out.split()) == ["0,1", "2"]


def test_gpus_are_distinct_across_runs(with_gpus: Workspace) -> None:
    shown = "echo $CUDA_VISIBLE_DEVICES"
    with holding(with_gpus, task("holder", HOLD, 1, container=gpu(2))):
        result = with_gpus.run(job(task("only", shown, container=gpu(1))), flags=["--no-prefix"])
        assert (result.code, result.out) == (0, "2\n"), result.err
        result = with_gpus.run(job(task("only", shown, container=gpu(2))), flags=["--no-wait"])
        assert result.code == 2
        assert "nvidia.com/gpu: 2 wanted, 1 free; trial:1 holds 2; first in queue" in result.err
    result = with_gpus.run(job(task("only", shown, container=gpu(3))), flags=["--no-prefix"])
    assert (result.code, result.out) == (0, "0,1,2\n"), result.err


def test_threads_and_processors_are_those_of_the_limit(workspace: Workspace) -> None:
    limited = {"resources": {"limits": {"cpu": 1}}}
    script = 'echo $OMP_NUM_THREADS; python3 -c "import os; print(len(os.sched_getaffinity(0)))"'
    result = workspace.run(job(task("only", script, container=limited)), flags=["--no-prefix"])
    threads, processors = map(int, result.out.split())
    assert threads == 1
    # Where the kernel limits the share, it may be had on any processor.
    assert processors == (len(read_machine().cpus) if "cpu" in kernel().limits else 1)
    own = task("only", script, container={**limited, "env": [{"name": "OMP_NUM_THREADS", "value": "7"}]})
    assert workspace.run(job(own), flags=["--no-prefix"]).out.split()[0] == "7"


def test_many_pods(workspace: Workspace) -> None:
    """All at once, each with its own address. How long it takes is told, not judged: machines differ."""
    script = 'hostname -i > "at/$HOSTNAME"; until [ -e release ]; do sleep 1; done'
    (workspace.directory / "at").mkdir()
    process = workspace.start(job(task("only", script, MANY), minAvailable=MANY, plugins={"svc": []}))
    began = time.monotonic()
    try:
        while len(list((workspace.directory / "at").iterdir())) < MANY:
            assert process.poll() is None
            assert time.monotonic() - began < 300
            time.sleep(0.05)
        took = time.monotonic() - began
        (workspace.directory / "release").touch()
        _, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert f"{MANY} succeeded" in err
    addresses = {path.read_text().split()[0] for path in (workspace.directory / "at").iterdir()}
    assert len(addresses) == MANY
    print(f"{MANY} pods ran after {took:.1f}s")  # noqa: T201 - for who looks
