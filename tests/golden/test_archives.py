"""An archive of `export` shows on another machine what the run showed on its own; each recorded run is tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.golden.store_archive import Recorded, recorded_stories, unpacked
from tests.unit.cli.conftest import terminal as terminal  # noqa: PLC0414 - a fixture
from tests.unit.cli.running import Terminal

COMMANDS = ("logs {run}", "why {run}", "why {run} -o json", "history {run}", "history {run} --events", "replay {run}")
# What is of one place: where the run is stored, that it was opened, and when its process is known to be gone.
_PLACE = re.compile(r'^ *"?(?:directory|mode)"?: .*\n', re.MULTILINE)
RUNS = [run for story, runs in recorded_stories().items() for run in runs if run.uid and story != "newer"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory of the machine that ran all stories."""
    home = tmp_path_factory.mktemp("recorded")
    (home / "pumice").mkdir()
    with unpacked(home / "pumice"):
        yield home


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.ref)
def test_an_opened_run_shows_the_same(
    run: Recorded, recorded: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(recorded))
    exported = terminal.run("export", run.ref, "-o", "run.tar.gz")
    assert exported.code == 0, exported
    before = {command: terminal.run(*command.format(run=run.ref).split()) for command in (*COMMANDS, "get {run}")}
    # Of others, they say whether a process works on the run.
    is_over = json.loads(terminal.run("get", run.ref, "-o", "json").out)["run"]["finished"] is not None
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "other"))
    opened = terminal.run("open", "run.tar.gz")
    assert (opened.code, opened.out) == (0, f"{run.ref}@file\n"), opened
    for command, shown in before.items():
        code, *texts = terminal.run(*command.format(run=f"{run.ref}@file").split())
        if is_over or not command.startswith(("why", "get")):
            assert (code, *(_PLACE.sub("", text.replace("@file", "")) for text in texts)) == (
                shown.code,
                *(_PLACE.sub("", text) for text in shown[1:]),
            ), command
    assert terminal.run("rm", f"{run.ref}@file") == (0, f"{run.ref}@file\n", "")
    assert not list((terminal.folder / "other").rglob("run.json"))
