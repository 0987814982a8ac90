"""`exec`, `forward` and `cp` take a pod; who names its run is told what to write."""

from __future__ import annotations

import datetime as dt

import pytest

from pumice.store.files.run_store import RunStore
from scripts.made_runs import Ends, RunMaker, Story, Try
from tests.unit.cli.running import Terminal

WANTED = "must be TASK-INDEX or RUN/TASK-INDEX"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("exec {run} -- ls", id="exec"),
        pytest.param("forward {run} 6006", id="forward"),
    ],
)
def test_a_run_is_no_pod(command: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    maker = RunMaker(
        RunStore(terminal.folder / "state" / "pumice"),
        terminal.folder / "jobs",
        dt.datetime(2026, 11, 17, tzinfo=dt.UTC),
    )
    maker.make(Story("pytorch-job", [Try(1.0, [Ends("master-0", 1.0)])], "Completed"))
    found = terminal.run(*command.format(run="pytorch-job:1").split())
    hint = "pytorch-job:1 is a run; a pod of it is pytorch-job:1/master-0"
    assert found == (2, "", f"pytorch-job:1: {WANTED}\n  hint: {hint}\n")
    assert terminal.run(*command.format(run="nope:1").split()) == (2, "", f"nope:1: {WANTED}\n")
