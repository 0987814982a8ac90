from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pumice.engines.local.kubelet.container_logs import LogFile
from pumice.engines.local.state.run_directory import (
    KEPT,
    MOST_RUNS,
    SCRATCH,
    RunDirectory,
    locked_run_directory,
    once_per_machine,
    state_problem,
)
from pumice.model.job import Job


def test_scratch_of_killed_runs_is_removed_and_that_of_live_runs_stays(tmp_path: Path) -> None:
    for name in ("killed", "live"):
        (tmp_path / name / SCRATCH / "volumes").mkdir(parents=True)
        (tmp_path / name / KEPT).mkdir()
    with locked_run_directory(tmp_path / "live"):
        assert not (tmp_path / "killed" / SCRATCH).exists()
        assert (tmp_path / "killed" / KEPT).exists()
        with locked_run_directory(tmp_path / "new"):
            assert (tmp_path / "live" / SCRATCH).exists()
    with locked_run_directory(tmp_path / "new"):
        assert not (tmp_path / "live" / SCRATCH).exists()


def test_the_newest_runs_stay_and_live_ones_and_those_that_keep_files(tmp_path: Path) -> None:
    for number in range(MOST_RUNS + 5):
        directory = tmp_path / f"run-{number:02}"
        (directory / "pods").mkdir(parents=True)
        if number == 1:
            (directory / KEPT).mkdir()
        os.utime(directory, (number, number))
    with locked_run_directory(tmp_path / "run-00"), locked_run_directory(tmp_path / "newest"):
        left = sorted(path.name for path in tmp_path.iterdir())
    # A run that locks its directory is the newest.
    gone = {f"run-{number:02}" for number in (2, 3, 4, 5)}
    assert left == sorted({f"run-{number:02}" for number in range(MOST_RUNS + 5)} - gone | {"newest"})


def test_a_file_among_the_directories_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with locked_run_directory(tmp_path / "new"):
        assert (tmp_path / "note").read_text() == "mine"


def test_files_of_a_run_are_closed_to_other_users(tmp_path: Path) -> None:
    record = RunDirectory(tmp_path / "run", pytest.fail)
    record.write_job(Job())
    for _ in range(2):
        directory = record.add_pod("w-0", {"kind": "Pod"})
        for restart in range(2):
            log = record.open_log(directory, "main", restart)
            log.write(b"words\n")
            log.close()
    record.append_events('{"type":"phase"}\n')
    record.append_events('{"type":"verdict"}\n')
    record.close()
    pods = [f"pods/w-0/{number}/{name}" for number in (1, 2) for name in ("main.0.log", "main.1.log", "pod.json")]
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "run")) for path in files) == ["events.jsonl", "job.json", *pods]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    events = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in events] == ["phase", "verdict"]


def test_a_run_continues_if_its_files_cannot_be_written(tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "run").write_text("in the way")
    record = RunDirectory(tmp_path / "run", warnings.append)
    record.write_job(Job())
    record.append_events("{}\n")
    record.open_log(record.add_pod("w-0", {}), "main", 0).write(b"words")
    assert all(message.startswith("logs are shown but no longer written to ") for message in warnings)
    assert warnings


def test_once_per_machine(tmp_path: Path) -> None:
    warnings: list[str] = []
    for message in ("a", "a", "b"):
        once_per_machine(tmp_path, warnings.append)(message)
    assert warnings == ["a", "b"]
    once_per_machine(tmp_path / "missing" / "directory", warnings.append)("a")
    assert warnings == ["a", "b", "a"]


@pytest.mark.parametrize("exists", [True, False], ids=["exists", "does not exist"])
def test_a_state_directory_of_another_user(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint suggests to take over the state directory, but never its parents."""
    state = tmp_path if exists else tmp_path / "state"
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    text = state_problem(state, PermissionError(13, "Permission denied", str(state / "runs" / "a"))).text
    assert text.startswith(f"{state}/runs/a: permission denied, so nothing can be stored in {state}\n  hint: ")
    assert (f"sudo chown -R {mine + 1} {state}, or set XDG_STATE_HOME" in text) == exists


def test_a_long_log_keeps_its_first_segment_and_the_newest(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "c.0.log", warn=pytest.fail, most=40, segment=10)
    for number in range(10):
        log.write(f"line {number}..\n".encode())
    log.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["c.0.7.log", "c.0.8.log", "c.0.9.log", "c.0.log"]
    missing = "[pumice: 54 bytes are missing here: the log is larger than 40 bytes]"
    assert (tmp_path / "c.0.log").read_text() == f"line 0..\n{missing}\n"
    assert (tmp_path / "c.0.9.log").read_text() == "line 9..\n"


def test_a_log_below_its_limit_is_whole(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "c.0.log", warn=pytest.fail, most=100, segment=50)
    for number in range(9):
        log.write(f"line {number}..\n".encode())
    log.close()
    parts = [(tmp_path / name).read_text() for name in ("c.0.log", "c.0.1.log")]
    assert "".join(parts) == "".join(f"line {number}..\n" for number in range(9))
