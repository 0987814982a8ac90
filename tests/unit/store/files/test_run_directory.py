from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.store.files.run_directory import RunDirectory
from pumice.store.journal import Journal, SequenceNumbers, read_journal
from pumice.store.logs.log_reader import LogReader


def test_files_of_a_run_are_closed_to_other_users(tmp_path: Path) -> None:
    record = RunDirectory(tmp_path / "run", pytest.fail)
    for _ in range(2):
        directory = record.add_pod("w-0", {"kind": "Pod"})
        for restart in range(2):
            log = record.open_log(directory, "main", restart)
            log.write(b"words\n")
            log.close()
    names = ("main.0.idx", "main.0.log", "main.1.idx", "main.1.log", "pod.json")
    pods = [f"pods/w-0/{number}/{name}" for number in (1, 2) for name in names]
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "run")) for path in files) == pods
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_run_continues_if_its_files_cannot_be_written(tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "run").write_text("in the way")
    record = RunDirectory(tmp_path / "run", warnings.append)
    record.open_log(record.add_pod("w-0", {}), "main", 0).write(b"words")
    assert all(message.startswith("logs are shown but no longer written to ") for message in warnings)
    assert warnings


def test_another_process_continues_a_run_with_further_pods_and_numbers(tmp_path: Path) -> None:
    for first in (True, False):
        numbers = SequenceNumbers()
        record = RunDirectory(tmp_path, pytest.fail, numbers)
        journal = Journal(tmp_path, numbers, wall_clock, elapsed)
        journal.open()
        journal.append("begins")
        log = record.open_log(record.add_pod("w-0", {}), "main", 0)
        log.write(b"first\n" if first else b"second\n")
        log.write(b"and more\n")
        log.close()
        journal.close()
    assert sorted(path.name for path in (tmp_path / "pods" / "w-0").iterdir()) == ["1", "2"]
    batches = [(number, text) for rows in LogReader(tmp_path).read() for number, _, _, _, text in rows]
    assert batches == [(2, b"first\n"), (3, b"and more\n"), (5, b"second\n"), (6, b"and more\n")]
    # The journal alone would continue with 2.
    assert [entry.seq for entry in read_journal(tmp_path)[0]] == [1, 4]
