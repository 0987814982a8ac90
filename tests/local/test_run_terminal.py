"""A run on a real terminal: the state at the bottom, logs above it, bars under their prefix, and nothing of it left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.local.running import Manifest, Workspace, job, scripted, task
from tests.local.sandbox.boxes import need_namespaces
from tests.unit.cli.screens import OnTerminal

BAR = """
import sys, time
for number in range(3):
    print(f"\\r{number} of 2", end="", file=sys.stderr, flush=True)
    time.sleep(0.3)
print(file=sys.stderr)
while True:
    time.sleep(0.1)
"""
# Goes on when the file is there.
WAITING = "echo up; while ! [ -e go ]; do sleep 0.2; done; echo gone"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, {"TERM": "xterm", "LANG": "C.UTF-8"})


def _job() -> Manifest:
    bar = task("bar", "", container=scripted("python3", "-c", BAR))
    master = task("master", WAITING, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])
    return job(master, bar)


def test_the_state_stays_at_the_bottom_and_is_gone_at_the_end(workspace: Workspace) -> None:
    terminal = OnTerminal(workspace.argv(_job()), workspace.directory, workspace.env)
    terminal.read_until("Running 2/2  master ● bar ●")
    terminal.read_until("bar-0     2 of 2")
    (workspace.directory / "go").touch()
    assert terminal.read_to_end() == 0
    lines = terminal.screen.lines
    # As it would have been without a terminal.
    assert [line for line in lines if "●" in line or "○" in line] == []
    assert lines.count("bar-0     2 of 2") == 1
    assert not any("0 of 2" in line or "1 of 2" in line for line in lines)
    assert {"master-0  up", "master-0  gone"} <= set(lines)
    assert lines[-2].split()[1:3] == ["Completed", "in"]
    # At every moment each line was what it was meant to be: nothing was written into another.
    for moment in terminal.screen.moments:
        assert sum("●" in line or "○" in line for line in moment) <= 1
        assert all(line in ("master-0  up", "master-0  gone") for line in moment if line.startswith("master-0  "))
    assert b"\x1b[36mmaster-0\x1b[0m" in terminal.raw


def test_no_color_leaves_the_state_without_colour(workspace: Workspace) -> None:
    workspace.environ["NO_COLOR"] = "1"
    terminal = OnTerminal(workspace.argv(_job()), workspace.directory, workspace.env)
    terminal.read_until("Running 2/2  master ● bar ●")
    (workspace.directory / "go").touch()
    assert terminal.read_to_end() == 0
    assert b"\x1b[3" not in terminal.raw
    assert b"\x1b[0m" not in terminal.raw


def test_json_has_nothing_of_it(workspace: Workspace) -> None:
    (workspace.directory / "go").touch()
    terminal = OnTerminal(workspace.argv(_job(), flags=["--json"]), workspace.directory, workspace.env)
    assert terminal.read_to_end() == 0
    assert b"\x1b" not in terminal.raw
    events = [json.loads(line) for line in terminal.raw.decode().splitlines()]
    assert events[-1]["type"] == "verdict"


def test_a_narrow_terminal(workspace: Workspace) -> None:
    (workspace.directory / "go").touch()
    terminal = OnTerminal(workspace.argv(_job()), workspace.directory, workspace.env, columns=20)
    assert terminal.read_to_end() == 0
    drawn = [line for moment in terminal.screen.moments for line in moment if "○" in line or "●" in line]
    assert max(map(len, drawn), default=0) < 20


def test_a_dumb_terminal_gets_plain_lines(workspace: Workspace) -> None:
    workspace.environ["TERM"] = "dumb"
    (workspace.directory / "go").touch()
    terminal = OnTerminal(workspace.argv(_job()), workspace.directory, workspace.env)
    assert terminal.read_to_end() == 0
    assert b"\x1b" not in terminal.raw


def test_messages_fit_80_columns(workspace: Workspace) -> None:
    """Log lines stay as they are, and so do commands and paths, which a person copies."""
    policies = [{"event": "PodFailed", "action": "TerminateJob"}]
    trial = task("a-trial-of-the-parameter-sweep", "echo one two; exit 3", policies=policies)
    terminal = OnTerminal(
        workspace.argv(job(trial, task("another-task-with-a-long-name", "exec sleep 600"))),
        workspace.directory,
        workspace.env,
        columns=80,
    )
    assert terminal.read_to_end() == 3
    lines = terminal.screen.lines
    wide = [line for line in lines if len(line) > 80]
    copied = ("  next ", "  log ", "  run ")
    assert [line for line in wide if " " in line.strip() and not line.startswith(copied)] == []
    assert {"pods:", "images:", "PodFailed", "TerminateJob"} <= set(" ".join(lines).split())
    # What was broken: the plan of the job and the policy that acted.
    text = " ".join(line.strip() for line in lines)
    assert "a-trial-of-the-parameter-sweep 1, another-task-with-a-long-name 1 gang 2" in text
    assert "a-trial-of-the-parameter-sweep-0 failed: exit code 3; PodFailed -> TerminateJob" in text
