"""Damaged and hostile files in the store, closed streams, few open files: clear messages, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import fork_server
from tests.local.commands import Terminal
from tests.local.running import MODULES, job, task
from tests.local.sandbox.boxes import need_namespaces

READERS = ("ps -a", "ps --active", "get trial", "logs trial", "why trial", "replay trial")
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user with one run, which has completed. Tests work on copies."""
    need_namespaces()
    home = tmp_path_factory.mktemp("finished")
    result = Terminal(home).workspace.run(job(task("w", "echo here")))
    assert result.code == 0, result.err
    return home


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def directory_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_types(path: Path) -> None:
    path.write_text(path.read_text().replace('"data":{', '"data":7,"was":{'))


def changed(**fields: Any) -> Callable[[Path], None]:
    """Give fields of a JSON file other values."""

    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 40)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _hostile_links(active: Path) -> None:
    (active / "loop").symlink_to("loop")
    (active / "self").symlink_to(".")
    (active / "nowhere").symlink_to("../gone")
    (active / "file").write_text("x")


def _many_directories(runs: Path) -> None:
    for number in range(500):
        (runs / "default" / f"empty-{number}").mkdir()
    for name in ("5", "99999999999999999999", "x", "٣"):
        (runs / "default" / "trial" / name).mkdir()


@pytest.mark.parametrize(
    ("where", "damage", "expected"),
    [
        pytest.param("runs/default/trial/1/run.json", truncate, (1, "run.json cannot be read"), id="half a record"),
        pytest.param(
            "runs/default/trial/1/run.json", directory_instead, (1, "run.json cannot be read"), id="no record"
        ),
        *(
            pytest.param("runs/default/trial/1/run.json", damage, (1, "run.json cannot be read"), id=f"record: {name}")
            for name, damage in {
                "garbage": garbage,
                "a loop of links": loop,
                "a pipe": pipe,
                "another uid": changed(uid="../../x"),
                "no time zone": changed(created="2026-01-01T12:00:00"),
                "no spec": changed(job={"spec": []}),
                "no tasks": changed(job={"spec": {"tasks": [7]}}),
                "no number of pods": changed(job={"spec": {"tasks": [{"replicas": "two"}]}}),
                "no quantity": changed(gang=[{"task": "w", "count": 1, "requests": {"cpu": "much"}}]),
                "an endless bound": changed(bound=1e300),
            }.items()
        ),
        *(
            pytest.param("runs/default/trial/1/status.json", damage, (0, "Completed"), id=f"status: {name}")
            for name, damage in {
                "garbage": garbage,
                "a loop of links": loop,
                "a pipe": pipe,
                "no time zone": changed(finished="2026-01-01T12:00:00"),
                "other types": changed(phase=[], pods=7),
            }.items()
        ),
        pytest.param("runs/default/trial/1/journal.jsonl", garbage, (0, "Completed"), id="journal: garbage"),
        pytest.param("runs/default/trial/1/journal.jsonl", pipe, (1, "journal.jsonl"), id="journal: a pipe"),
        pytest.param("runs/default/trial/1/owner.lock", directory_instead, (0, "Completed"), id="no lock"),
        pytest.param("runs/default/trial/1/pods/w-0/1/w.0.idx", garbage, (0, "Completed"), id="index: garbage"),
        pytest.param("runs/default/trial/1/status.json", truncate, (0, "Completed"), id="half a status"),
        pytest.param("runs/default/trial/1/status.json", directory_instead, (0, "Completed"), id="no status"),
        pytest.param("runs/default/trial/1/journal.jsonl", truncate, (0, "Completed"), id="half a journal"),
        pytest.param("runs/default/trial/1/journal.jsonl", directory_instead, (1, "is a directory"), id="no journal"),
        pytest.param("runs/default/trial/1/journal.jsonl", _other_types, (0, "Completed"), id="another format"),
        pytest.param("runs/default/trial/1/pods/w-0/1/w.0.log", directory_instead, (None, "w.0.log"), id="no log"),
        pytest.param("active", _hostile_links, (0, "Completed"), id="hostile links"),
        pytest.param("runs", _many_directories, (0, "Completed"), id="directories without runs"),
    ],
)
def test_damaged_files(
    finished: Path, tmp_path: Path, where: str, damage: Callable[[Path], None], expected: tuple[int | None, str]
) -> None:
    shutil.copytree(finished / "state", tmp_path / "state", symlinks=True)
    terminal = Terminal(tmp_path)
    runs = terminal.workspace.state / "runs" / "default"
    shutil.copytree(runs / "trial" / "1", runs / "other" / "1")
    changed(name="other", uid="0123456789ab")(runs / "other" / "1" / "run.json")
    damage(terminal.workspace.state / where)
    directories = sorted((terminal.workspace.state / "runs").rglob("*"))
    printed = []
    for command in ("ps -a", "ps -a -o wide", "history", "clean --claims --dry-run"):
        result = terminal(*command.split())
        assert command.startswith("clean") or "other:1" in result.out, command
        assert "Traceback" not in result.err
    for command in READERS:
        result = terminal(*command.split(), code=None)
        assert "Traceback" not in result.err, (command, result.err)
        assert result.code in (0, 1), (command, result)
        assert result.code == 0 or result.err.strip(), command
        printed.append((result.code, result.out + result.err))
    assert sorted((terminal.workspace.state / "runs").rglob("*")) == directories
    code, words = expected
    if code is not None:
        assert max(each for each, _ in printed) == code, printed
        assert any(words in text for each, text in printed if each == code), printed


@pytest.mark.parametrize(
    ("shell", "code", "words"),
    [
        pytest.param("LC_ALL=C {} ps -a", 0, "trial:1", id="LC_ALL=C"),
        pytest.param("{} ps -a <&-", 0, "trial:1", id="no input"),
        pytest.param("{} ps -a >&-", 0, "", id="no output"),
        pytest.param("{} logs trial > /dev/full", 1, "pumice: no space left on device", id="a full disk"),
        pytest.param("ulimit -n 24; {} ps -a", 0, "trial:1", id="few open files"),
        pytest.param("env -u HOME {} ps -a", 0, "trial:1", id="no home"),
        pytest.param("{} get \"$(printf 'a\\nb')\"", 2, "no such run", id="a newline in a name"),
        pytest.param("{} get \"$(printf '\\377')\"", 2, "no such run", id="a byte that is no text"),
        pytest.param("cd \"$(printf 'd\\377')\" && {} submit ../job.yaml", 2, "is not UTF-8", id="such a directory"),
        pytest.param("XDG_STATE_HOME=/proc/1/none {} submit job.yaml", 2, "nothing can be stored", id="no store"),
    ],
)
def test_commands_in_a_hostile_environment(finished: Path, shell: str, code: int, words: str) -> None:
    if "LC_ALL" in shell and not sys.executable.isascii():
        pytest.skip("Python itself does not start there")
    environ = dict(Terminal(finished).workspace.env)
    os.makedirs(os.fsencode(finished) + b"/d\xff", exist_ok=True)  # noqa: PTH103 - a Path is text
    argv = ["sh", "-c", shell.format(f"'{sys.executable}' -c '{MAIN}'")]
    done = subprocess.run(argv, cwd=finished, env=environ, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True), done


def test_a_run_that_cannot_be_stored_is_refused_in_words(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    file = terminal.workspace.write(job(task("w", "true")))
    runs = terminal.workspace.state / "runs" / "default"
    runs.mkdir(parents=True)
    (runs / "trial").touch()
    refused = terminal("submit", file, code=1)
    terminal("service", "stop", code=None)
    assert refused.err.splitlines()[0] == f"the run cannot be stored: {runs / 'trial'}: file exists"


def test_a_store_that_may_not_be_read_or_written(finished: Path, tmp_path: Path) -> None:
    """As root, another user tries; the store is closed to others."""
    shutil.copytree(finished / "state", tmp_path / "state", symlinks=True)
    terminal = Terminal(tmp_path)
    terminal.workspace.write(job(task("w", "true")))
    run = terminal.workspace.state / "runs" / "default" / "trial" / "1"
    if os.geteuid() == 0:
        pytest.skip("root may read and write everything")
    for path, command, words in (
        (run / "run.json", "get trial", "run.json cannot be read"),
        (terminal.workspace.state / "runs" / "default" / "trial", "submit job.yaml", "permission denied"),
    ):
        mode = path.stat().st_mode
        path.chmod(0o500 if path.is_dir() else 0)
        result = fork_server(*MODULES).run(command.split(), cwd=tmp_path, env=terminal.workspace.env)
        path.chmod(mode)
        assert result.returncode in (1, 2)
        assert words in result.stderr.lower()
    terminal("service", "stop", code=None)
