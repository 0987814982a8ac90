"""The code of runs: recorded when they are submitted, compared when an attempt starts, and brought back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import pumice
from pumice.store.code.selection import MOST_LISTED
from tests.local.commands import Terminal, open_terminal
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.unit.store.code.repositories import contents, git, make_repository

CHANGED = "code changed since it was submitted: train.sh"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_namespaces()
    with open_terminal(tmp_path / "a project") as terminal:
        make_repository(
            terminal.workspace.directory, {"train.sh": "echo old\n", ".gitignore": "state\npumice\n*.out\n"}
        )
        yield terminal


def test_a_queued_run_says_that_its_code_changed_and_gives_it_back(terminal: Terminal) -> None:
    directory = terminal.workspace.directory
    (directory / "new.sh").write_text("echo new\n")
    held = terminal.submit(job(task("w", ". ./train.sh")), flags=("--hold",))
    (directory / "train.sh").write_text("echo edited\n")
    git(directory, "commit", "-a", "-m", "edited")
    terminal("resume", held)
    terminal("wait", held)
    assert terminal("logs", held).out == "w-0  edited\n"
    assert CHANGED in terminal("ps", "-a").out
    assert CHANGED in terminal("why", held).out
    assert CHANGED in terminal("history", "trial").out
    assert f"CodeChanged {CHANGED}" in terminal("history", held, "--events").out
    assert CHANGED in terminal("replay", held).out
    assert terminal.items("-a")[0]["codeChange"] == {"files": ["train.sh"], "count": 1}
    assert terminal("get", held, "--code", "the code.out").out == "the code.out\n"
    restored = contents(directory / "the code.out")
    assert (restored["train.sh"], restored["new.sh"]) == ("echo old\n", "echo new\n")
    again = terminal("get", held, "--code", "the code.out", code=2)
    assert "the code.out: exists already" in again.err


def test_a_pod_that_changes_the_code_is_named_at_the_next_attempt(terminal: Terminal) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    file = terminal.workspace.write(
        job(task("w", "echo 'exit 1' >> train.sh; . ./train.sh"), policies=policies, maxRetry=2)
    )
    ended = terminal("run", file, "--network=job", code=1)
    assert ended.err.count(f"warning: {CHANGED}") == 1
    later = terminal("run", file, "--network=job", "--json", code=1)
    warnings = [each["message"] for each in map(json.loads, later.out.splitlines()) if each["type"] == "warning"]
    assert CHANGED in warnings


def test_what_is_not_recorded_is_named(terminal: Terminal) -> None:
    directory = terminal.workspace.directory
    (directory / "model.bin").write_bytes(b"x" * 3_000_000)
    file = terminal.workspace.write(job(task("w", "true")))
    terminal("run", file, "--network=job")
    refused = terminal("get", "@last", "--code", "new", code=2)
    assert "the code is not complete; missing:\n  model.bin: 2.9 MiB, only its hash is recorded" in refused.err
    assert not (directory / "new").exists()
    (terminal.workspace.state / "runs" / "default" / "trial" / "1" / "code.json").unlink()
    assert "trial:1: its code is not recorded" in terminal("get", "@last", "--code", "new", code=2).err


def test_programs_get_the_code_too(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = terminal.workspace.directory
    monkeypatch.chdir(directory)
    for name, value in terminal.workspace.env.items():
        monkeypatch.setenv(name, value)
    own = pumice.load(terminal.workspace.write(job(task("w", "true"))))
    run = pumice.submit(own)
    run.wait()
    (directory / ".env").write_text("secret")
    assert run.code("first.out") == []
    assert contents(directory / "first.out")["train.sh"] == "echo old\n"
    with pumice.Client() as client, client.start(own) as owned:
        owned.wait()
    assert owned.code("second.out") == [".env"]
    with pytest.raises(pumice.InvalidOption, match="exists already"):
        owned.code("second.out")


def test_a_snapshot_keeps_the_code_and_leaves_the_rest_live(terminal: Terminal) -> None:
    directory = terminal.workspace.directory
    (directory / "data.out").mkdir()
    (directory / "data.out" / "set").write_text("live\n")
    script = ". ./train.sh; cat data.out/set; echo x > made.txt; echo y > data.out/result; echo z >> train.sh"
    file = terminal.workspace.write(job(task("w", script)))
    held = terminal("submit", file, "--hold", "--snapshot", "--network=job").out.strip()
    (directory / "train.sh").write_text("echo edited\n")
    (directory / "data.out" / "set").write_text("newer\n")
    terminal("resume", held)
    terminal("wait", held)
    assert terminal("logs", held).out == "w-0  old\nw-0  newer\n"
    assert "code changed" not in terminal("ps", "-a").out
    assert (directory / "data.out" / "result").read_text() == "y\n"
    assert (directory / "train.sh").read_text() == "echo edited\n"
    assert not (directory / "made.txt").exists()
    kept = terminal.workspace.state / "runs" / "default" / "trial" / "1" / "snapshot" / "made.txt"
    assert kept.read_text() == "x\n"
    assert f"kept: {kept}" in terminal("replay", held).out.replace("\n", " ")
    assert not [*(terminal.workspace.state / "snapshots").iterdir()]
    terminal("export", held, "-o", "run.out")
    assert terminal("open", "run.out").out == f"{held}@file\n"
    assert terminal("logs", f"{held}@file").out == "w-0  old\nw-0  newer\n"


def test_a_snapshot_hides_what_the_working_directory_hides(terminal: Terminal) -> None:
    """The home is the working directory: its credentials stay hidden, among the code and beside it."""
    directory = terminal.workspace.directory
    for name in (".aws/credentials", ".config/gh/hosts.yml"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("canary\n")
    file = terminal.workspace.write(job(task("w", "cat .aws/* .config/gh/* 2>/dev/null; ls train.sh")))
    assert terminal("run", file, "--snapshot", "--network=job").out == "w-0  train.sh\n"


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_snapshot_that_cannot_be_is_refused(terminal: Terminal, command: str) -> None:
    file = terminal.workspace.write(job(task("w", "true")))
    refused = terminal(command, file, "--snapshot", "--isolation=process", code=2)
    assert "--snapshot: not with plain processes" in refused.err
    with (terminal.workspace.directory / "large.bin").open("wb") as large:
        large.truncate(2 << 30)
    refused = terminal(command, file, "--snapshot", code=2)
    assert "2 GiB of code" in refused.err
    assert "large.bin (2 GiB)" in refused.err
    assert terminal.items("-a") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_snapshot_of_what_cannot_be_read_leaves_no_run(terminal: Terminal, command: str) -> None:
    (terminal.workspace.directory / "private.txt").touch(mode=0)
    file = terminal.workspace.write(job(task("w", "true")))
    refused = terminal(command, file, "--snapshot", "--network=job", code=2)
    assert "--snapshot: private.txt: permission denied, so it cannot be copied" in refused.err
    assert "hint: make it readable, or name it in .pumiceignore" in refused.err
    assert terminal.items("-a") == []
    assert not [*(terminal.workspace.state / "snapshots").iterdir()]


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_snapshot_of_too_many_files_is_refused(terminal: Terminal, command: str) -> None:
    many = terminal.workspace.directory / "many"
    many.mkdir()
    for number in range(MOST_LISTED + 1):
        (many / str(number)).touch()
    file = terminal.workspace.write(job(task("w", "true")))
    refused = terminal(command, file, "--snapshot", code=2)
    assert "more than 10000 files besides those that git tracks, and not all would be copied" in refused.err
    assert terminal.items("-a") == []


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_large_copy_is_announced(terminal: Terminal, command: str) -> None:
    (terminal.workspace.directory / "large.bin").write_bytes(bytes(17 << 20))
    file = terminal.workspace.write(job(task("w", "true")))
    done = terminal(command, file, "--snapshot", "--network=job")
    assert "copying 17 MiB of code, of 4 files, for the snapshot" in done.err
