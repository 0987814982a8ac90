"""`kill -9` of pumice and of the process of its run at random moments, and of those below: nothing of the job stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import SOAK, seed
from tests.local.killing import Lane, Process, Traces, scratch, start
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

LANES = 2  # at once in one test
KILLS = 5 if SOAK else 2  # in each of them


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def _kill(tmp_path: Path, turn: int, flags: Sequence[str], record: Callable[[str, object], None]) -> None:
    lanes = [Lane(tmp_path / f"lane{number}", seed() + LANES * turn + number, flags) for number in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        done = list(pool.map(lambda lane: lane.run(KILLS), lanes))
    assert sum(len(lane.times) for lane in done) == LANES * KILLS
    record("kills of pumice", LANES * KILLS)


@pytest.mark.parametrize("turn", range(50 if SOAK else 1))
def test_kill_9_at_random_moments(tmp_path: Path, turn: int, record_property: Callable[[str, object], None]) -> None:
    _kill(tmp_path, turn, [], record_property)


def test_kill_9_at_random_moments_without_namespaces(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    _kill(tmp_path, 5, ["--isolation", "process"], record_property)


@pytest.mark.parametrize(
    ("victim", "code", "printed"),
    [
        pytest.param("supervisor", 1, "killed:1 has ended: its process was killed", id="supervisor"),
        pytest.param("helper", 128, "job-init has ended", id="helper"),
        pytest.param("job-init", 128, "job-init has ended", id="job-init"),
        pytest.param("pod", 137, "failed first: signal 9 (SIGKILL)", id="first process of a pod"),
    ],
)
def test_kill_9_of_processes_below_pumice(tmp_path: Path, victim: str, code: int, printed: str) -> None:
    traces = Traces.before(tmp_path)
    process = start(tmp_path, script="echo up; sleep 1000", policies=[{"event": "PodFailed", "action": "TerminateJob"}])
    try:
        assert process.stdout is not None
        assert any(line.endswith(" up\n") for line in process.stdout)
        traces.look(process.pid)
        os.kill(_victim(process.pid, victim), signal.SIGKILL)
        traces.killed()
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == code, output
    assert printed in output
    traces.gone_after()
    # Who is killed cannot clear away; the next one does.
    end = start(tmp_path, script="true")
    end.communicate(timeout=PATIENCE)
    assert end.returncode == 0
    assert scratch(tmp_path) == []


def _victim(pumice: int, name: str) -> int:
    """Pumice's child is the supervisor of the run, below it are the helper, job-init and the pods.

    Beside job-init is the process that waits for tunnels, beside the pods the launcher: in the pid namespaces of their
    parents.
    """
    everyone = list(Process.all())

    def below(parent: int) -> list[Process]:
        return [each for each in everyone if each.parent == parent]

    [supervisor] = below(pumice)
    [helper] = [each for each in below(supervisor.pid) if each.speaks_of("read_only_start")]
    [job_init] = [each for each in below(helper.pid) if _pid_namespace(each) != _pid_namespace(helper)]
    pods = [each for each in below(job_init.pid) if _pid_namespace(each) != _pid_namespace(job_init)]
    return {"supervisor": supervisor, "helper": helper, "job-init": job_init, "pod": pods[0]}[name].pid


def _pid_namespace(process: Process) -> Path:
    return Path(f"/proc/{process.pid}/ns/pid").readlink()


def test_traces_are_found_while_the_job_runs(tmp_path: Path) -> None:
    """The other tests would pass, too, if they looked in the wrong place."""
    traces = Traces.before(tmp_path)
    process = start(tmp_path, script="echo up; sleep 1000")
    try:
        assert process.stdout is not None
        for _ in range(3):
            assert any(line.endswith(" up\n") for line in process.stdout)
        traces.look(process.pid)
        # Pumice, supervisor, job-init and three pods with a shell and its sleep.
        assert len(traces.processes) >= 6
        kinds = {name.partition(":")[0] for name in traces.namespaces}
        assert kinds >= {"ipc", "mnt", "net", "pid", "uts"}
        # A process that was seen may have ended since, but not those of the pods.
        assert len(traces.left()) >= 6
        assert scratch(tmp_path) != []
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    # The process of the run tells pumice that the run has ended, and ends itself after that.
    traces.gone_after()
    assert scratch(tmp_path) == []
