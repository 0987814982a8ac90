"""A full disk: a small tmpfs in a mount namespace of its own, with so little room that each write fails once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.queued import record
from tests.local.test_service import uid
from tests.patience import PATIENCE

# Runs a function of this module on a file system of the given size.
_PROGRAM = """
import os, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={sys.argv[2]}", "tmpfs", sys.argv[1]], check=True)
sys.path[:0] = sys.argv[4:]
import pathlib
import tests.local.test_full_disk as module
getattr(module, sys.argv[3])(pathlib.Path(sys.argv[1]))
"""


def on_small_disk(directory: Path, size: str, function: str) -> None:
    namespace = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-r", "-m"]
    if subprocess.run(
        [*namespace, "mount", "-t", "tmpfs", "tmpfs", directory], capture_output=True, check=False
    ).returncode:
        pytest.skip("this user cannot mount a tmpfs in a namespace")
    command = [*namespace, sys.executable, "-c", _PROGRAM, str(directory), size, function, *sys.path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


def fill(directory: Path, left: int) -> None:
    """Leave this many bytes free, in pages."""
    file = directory / "filler"
    file.unlink(missing_ok=True)
    found = os.statvfs(directory)
    with file.open("wb") as out:
        out.write(bytes(max(0, found.f_bavail * found.f_frsize - left)))


def submit_at_each_write(directory: Path) -> None:
    """A submit is stored and queued, or refused and gone: whatever there is room for."""
    from pumice.engines.local.service import queued_runs
    from pumice.store.files.run_store import RunStore

    page, refused = os.sysconf("SC_PAGE_SIZE"), 0
    store = RunStore(directory / "state")
    store.state.mkdir()
    wanted = record(directory, uid(1))
    for pages in range(200):
        fill(directory, pages * page)
        try:
            run = queued_runs.submit(store, wanted)
        except OSError:
            refused += 1
            assert list(store.all_runs()) == []
            assert store.active_runs() == []
            continue
        assert run.status().arrival > 0
        break
    else:
        raise AssertionError("it was never stored")
    assert refused > 3, refused
    store.remove(run)


def journal_at_each_write(directory: Path) -> None:
    """However full the disk gets, the last entries of a run and its last status are stored; the log has a gap."""
    from pumice.engines.local.clock import elapsed, wall_clock
    from pumice.engines.local.runs import Recorder
    from pumice.model.job import Job
    from pumice.store.files.run_store import StoredRun
    from pumice.store.history.stored_history import StoredHistory
    from pumice.store.journal import Journal, SequenceNumbers, read_journal
    from pumice.store.logs.log_file import LogFile
    from pumice.store.run_end import RunEnded

    lost: list[str] = []
    for pages in (0, 1, 2, 3, 5, 8):
        (directory / "filler").unlink(missing_ok=True)
        run = directory / f"run-{pages}"
        run.mkdir()
        numbers = SequenceNumbers()
        journal = Journal(run, numbers, wall_clock, elapsed, lost.append)
        journal.open()
        recorder = Recorder(journal, StoredHistory(record(directory, uid(1)), directory=run))
        log = LogFile(run / "w.0.log", lambda _why: None, numbers.next)
        log.write(b"before\n")
        fill(directory, pages * os.sysconf("SC_PAGE_SIZE"))
        for number in range(40):
            journal.append("Entry", {"number": number, "text": "x" * 2000})
            log.write(b"y" * 5000 + b"\n")
        recorder(RunEnded(Job()))
        journal.close()
        kinds = [entry.kind for entry in read_journal(run)[0]]
        assert kinds == ["Entry"] * 40 + ["SpecChanged", "RunEnded"], kinds
        assert StoredRun(run, record(directory, uid(1))).status().finished is not None
        (directory / "filler").unlink()
        log.write(b"after\n")
        log.close()
        text = (run / "w.0.log").read_text().splitlines()
        assert (text[0], text[-1]) == ("before", "after")
        assert any(" bytes are missing here: no space left on device]" in line for line in text)
    assert lost == []


@pytest.mark.parametrize("function", ["submit_at_each_write", "journal_at_each_write"])
def test_a_full_disk(tmp_path: Path, function: str) -> None:
    on_small_disk(tmp_path, "2m", function)
