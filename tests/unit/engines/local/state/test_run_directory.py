"""The directories of runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pumice.engines.local.state.run_directory import (
    KEPT,
    MOST_RUNS,
    SCRATCH,
    RunDirectory,
    locked_run_directory,
    once_per_machine,
    state_error_text,
)
from pumice.model.job import Job


def test_scratch_of_the_dead_is_swept_and_that_of_the_living_is_not(tmp_path: Path) -> None:
    for name in ("dead", "living"):
        (tmp_path / name / SCRATCH / "volumes").mkdir(parents=True)
        (tmp_path / name / KEPT).mkdir()
    with locked_run_directory(tmp_path / "living"):
        assert not (tmp_path / "dead" / SCRATCH).exists()
        assert (tmp_path / "dead" / KEPT).exists()
        with locked_run_directory(tmp_path / "new"):
            assert (tmp_path / "living" / SCRATCH).exists()
    with locked_run_directory(tmp_path / "new"):
        assert not (tmp_path / "living" / SCRATCH).exists()


def test_the_newest_runs_stay_and_so_do_those_that_live_or_keep_files(tmp_path: Path) -> None:
    for number in range(MOST_RUNS + 5):
        directory = tmp_path / f"run-{number:02}"
        (directory / "pods").mkdir(parents=True)
        if number == 1:
            (directory / KEPT).mkdir()
        os.utime(directory, (number, number))
    with locked_run_directory(tmp_path / "run-00"), locked_run_directory(tmp_path / "newest"):
        left = sorted(path.name for path in tmp_path.iterdir())
    # Who claims a directory is the newest of all.
    gone = {f"run-{number:02}" for number in (2, 3, 4, 5)}
    assert left == sorted({f"run-{number:02}" for number in range(MOST_RUNS + 5)} - gone | {"newest"})


def test_a_file_among_the_directories_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with locked_run_directory(tmp_path / "new"):
        assert (tmp_path / "note").read_text() == "mine"


def test_what_is_kept_of_a_run_is_nobody_elses_to_read(tmp_path: Path) -> None:
    record = RunDirectory(tmp_path / "run", pytest.fail)
    record.job(Job())
    for _ in range(2):
        place = record.pod("w-0", {"kind": "Pod"})
        for restart in range(2):
            log = record.log(place, "main", restart)
            log.write(b"words\n")
            log.close()
    record.events('{"type":"phase"}\n')
    record.events('{"type":"verdict"}\n')
    record.close()
    pods = [f"pods/w-0/{number}/{name}" for number in (1, 2) for name in ("main.0.log", "main.1.log", "pod.json")]
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "run")) for path in files) == ["events.jsonl", "job.json", *pods]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    events = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in events] == ["phase", "verdict"]


def test_where_nothing_can_be_kept_the_job_goes_on(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "run").write_text("in the way")
    record = RunDirectory(tmp_path / "run", told.append)
    record.job(Job())
    record.events("{}\n")
    record.log(record.pod("w-0", {}), "main", 0).write(b"words")
    assert all(message.startswith("logs are shown but no longer kept: ") for message in told)
    assert told


def test_what_holds_for_every_run_is_told_in_the_first(tmp_path: Path) -> None:
    told: list[str] = []
    for message in ("a", "a", "b"):
        once_per_machine(tmp_path, told.append)(message)
    assert told == ["a", "b"]
    once_per_machine(tmp_path / "missing" / "place", told.append)("a")
    assert told == ["a", "b", "a"]


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there yet"])
def test_state_of_somebody_else(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What root has left there can be taken over, but nobody should take over what is above it."""
    state = tmp_path if there else tmp_path / "state"
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    told = state_error_text(state, PermissionError(13, "Permission denied", str(state / "runs" / "a")))
    assert told.startswith(f"{state}/runs/a: permission denied, so nothing can be kept in {state}\n  hint: ")
    assert (f"sudo chown -R {mine + 1} {state}, or set XDG_STATE_HOME" in told) == there
