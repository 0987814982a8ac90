"""The logs of Jobs on a cluster: merged by time, and followed over lost connections without a gap or a doubled line."""

from __future__ import annotations

import json
import threading
import time

import pytest

from pumice.cli.main import main
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, terminated


@pytest.fixture
def server(server: LogServer, monkeypatch: pytest.MonkeyPatch) -> LogServer:
    """Commands speak of the cluster by default."""
    monkeypatch.setenv("PUMICE_ON", "admin")
    return server


def _stamp(second: int, nanosecond: int = 0) -> str:
    return f"2026-11-18T12:00:{second:02d}.{nanosecond:09d}Z"


def _interleaved(server: LogServer, job: StagedJob) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    server.outputs["train-worker-0", False] = ContainerOutput([(_stamp(1), "a"), (_stamp(3), "c"), (_stamp(5), "e")])
    server.outputs["train-worker-1", False] = ContainerOutput([(_stamp(2), "b"), (_stamp(4), "d"), (_stamp(5, 9), "f")])


@pytest.mark.parametrize(
    ("flags", "texts"),
    [
        pytest.param((), "abcdef", id="all"),
        pytest.param(("--tail", "2"), "ef", id="the last of all"),
        pytest.param(("--task", "worker", "--pod", "worker-1"), "bdf", id="one pod"),
        pytest.param(("--grep", "[cd]"), "cd", id="what matches"),
        pytest.param(("--grep", "[cd]", "--tail", "1"), "d", id="the last that matches"),
    ],
)
def test_lines_are_merged_by_time(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], texts: str
) -> None:
    _interleaved(server, job)
    assert main(["logs", "train", "--no-prefix", *flags]) == 0
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in texts)


def test_lines_have_the_prefix_of_this_machine(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    _interleaved(server, job)
    assert main(["logs", "train", "--tail", "1", "-t"]) == 0
    assert capsys.readouterr().out == "2026-11-18T12:00:05.000Z worker-1  f\n"
    assert main(["logs", "train/worker-0", "--tail", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["pod"], found["line"], found["attempt"]) == ("train", "worker-0", "e", 1)


def test_the_execution_before_a_restart_is_shown(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.pod(0, "Running", running(), restarts=1)
    job.phases(*RUNNING, running=1)
    server.outputs["train-worker-0", True] = ContainerOutput([(_stamp(1), "first")])
    server.outputs["train-worker-0", False] = ContainerOutput([(_stamp(2), "second")])
    assert main(["logs", "train", "--no-prefix"]) == 0
    assert capsys.readouterr().out == "first\nsecond\n"
    assert main(["logs", "train", "--no-prefix", "--previous"]) == 0
    assert capsys.readouterr().out == "first\n"


@pytest.mark.parametrize(
    "target", [pytest.param(("train/worker-7",), id="pod"), pytest.param(("train", "-c", "nope"), id="container")]
)
def test_what_the_job_does_not_have(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str], target: tuple[str, ...]
) -> None:
    _interleaved(server, job)
    assert main(["logs", *target]) == 2
    assert "it has " in capsys.readouterr().err


def test_no_line_is_lost_or_doubled_when_connections_are_cut(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of one second, some with equal times and equal texts; each connection is cut in the middle of a line."""
    lines = [(_stamp(number // 50, number // 5), f"step {number // 2}") for number in range(300)]
    output = server.outputs["train-worker-0", False] = ContainerOutput(lines[:100], ended=False)
    server.cut_after = 2000
    job.pod(0, "Running", running())
    job.phases(*RUNNING, running=1)

    def print_and_end() -> None:
        for begin in (100, 200):
            time.sleep(0.5)
            output.lines += lines[begin : begin + 100]
        while server.cuts < 2:
            time.sleep(0.02)
        server.cut_after = 0
        output.ended = True
        job.pod(0, "Succeeded", terminated(0))
        job.phases(*RUNNING, "Completed", succeeded=1)

    printer = threading.Thread(target=print_and_end)
    printer.start()
    assert main(["logs", "train", "-f", "--no-prefix"]) == 0
    printer.join()
    assert capsys.readouterr().out.splitlines() == [text for _, text in lines]
    assert server.cuts >= 2


def test_a_pod_that_starts_later_is_followed(
    server: LogServer, job: StagedJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.phases("Pending", pending=1)

    def start_and_end() -> None:
        while server.open_watches < 2:
            time.sleep(0.02)
        server.outputs["train-worker-0", False] = ContainerOutput([(_stamp(1), "hello")])
        job.pod(0, "Running", running())
        job.pod(0, "Succeeded", terminated(0))
        job.phases(*RUNNING, "Completed", succeeded=1)

    starter = threading.Thread(target=start_and_end)
    starter.start()
    assert main(["logs", "train", "-f"]) == 0
    starter.join()
    assert capsys.readouterr().out == "worker-0  hello\n"
