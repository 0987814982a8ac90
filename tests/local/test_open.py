"""`pumice export` and `open` with real runs: from one state directory to another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.local.commands import WAITING, Terminal
from tests.local.running import Result, job, task
from tests.local.sandbox.boxes import need_namespaces


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def elsewhere(terminal: Terminal, *words: str) -> Result:
    """Run a command with another state directory."""
    directory = terminal.workspace.directory
    done = subprocess.run(
        [Path(sys.executable).with_name("pumice"), *words],
        cwd=directory,
        env={**os.environ, **terminal.workspace.env, "XDG_STATE_HOME": str(directory / "another machine")},
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_a_run_looks_the_same_elsewhere(terminal: Terminal) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    failing = task("w", 'echo "bad news of $HOSTNAME"; exit 4', replicas=2)
    flags = ("--env", "API_TOKEN=canary-1", "--note", "try again")
    run = terminal.submit(job(failing, policies=policies, maxRetry=2), flags=flags)
    terminal("wait", run, code=100)
    terminal("export", run, "-o", "run.tar.gz")
    with tarfile.open(terminal.workspace.directory / "run.tar.gz") as archive:
        contents = [archive.extractfile(each) for each in archive]
        assert not any(b"canary-1" in each.read() for each in contents if each is not None)
    assert elsewhere(terminal, "open", "run.tar.gz") == Result(0, "trial:1@file\n", "")
    for words in (["logs"], ["why"], ["why", "-o", "json"], ["history"], ["replay"], ["get"]):
        here, there = terminal(words[0], run, *words[1:]), elsewhere(terminal, words[0], "trial:1@file", *words[1:])
        plain = [
            re.sub("(?m)^ *(mode|directory): .*\n", "", text) for text in (here.out, here.err, there.out, there.err)
        ]
        assert [text.replace("trial:1@file", run) for text in plain[2:]] == plain[:2], words
    look = re.search(r"next +pumice (.*)", elsewhere(terminal, "why", "trial:1@file").out)
    assert look is not None
    assert "bad news of trial-w-" in elsewhere(terminal, *look[1].split()).out
    assert elsewhere(terminal, "rm", "trial:1@file").code == 0


def test_a_running_run_is_exported_as_it_is(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING)))
    terminal.until(lambda: "up" in terminal("logs", run).out)
    terminal("export", run, "-o", "run.tar.gz")
    (terminal.workspace.directory / "go").touch()
    assert elsewhere(terminal, "open", "run.tar.gz").out == "trial:1@file\n"
    assert elsewhere(terminal, "logs", "trial:1@file").out == "w-0  up\n"
    assert "it had not ended when it was exported" in elsewhere(terminal, "ps", "-a").out
    assert "trial" not in elsewhere(terminal, "ps").out
    waiting = elsewhere(terminal, "wait", "trial:1@file")
    assert (waiting.code, waiting.err.splitlines()[0]) == (1, "trial:1@file had not ended when it was exported")
