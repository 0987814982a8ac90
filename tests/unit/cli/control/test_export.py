from __future__ import annotations

import datetime as dt
import os
import stat
import tarfile

import pytest

from pumice.store.files.run_store import RunStore
from scripts.made_jobs import JOBS
from scripts.made_runs import RunMaker, Story, Try
from tests.unit.cli.running import Terminal


@pytest.mark.parametrize("umask", [pytest.param(mask, id=f"{mask:03o}") for mask in (0o000, 0o022, 0o077, 0o277)])
def test_the_archive_is_closed_to_other_users(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, umask: int) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    store = RunStore(terminal.folder / "state" / "pumice")
    maker = RunMaker(store, terminal.folder / "jobs", dt.datetime(2026, 11, 17, tzinfo=dt.UTC))
    maker.make(Story("pytorch-job", [Try(1.0)], "Completed", text=JOBS["pytorch-job"]))
    before = os.umask(umask)
    try:
        assert terminal.run("export", "-o", "run.tar.gz").out == "run.tar.gz\n"
    finally:
        os.umask(before)
    archive = terminal.folder / "run.tar.gz"
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600, "logs may contain secrets"
    with tarfile.open(archive) as packed:
        assert "pytorch-job-1/run.json" in packed.getnames()
