"""Arguments of programs, `pumice run job.yaml -- --lr 0.1`, and scripts without a Job file: in real pods."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import pumice
from tests.local.commands import Terminal, open_terminal
from tests.local.sandbox.boxes import need_namespaces

pytest_plugins = ["pumice.testing"]
TRAIN = """\
import argparse, json, os
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1.0)
parser.add_argument("--api-key", default="")
parser.add_argument("words", nargs="*")
found = parser.parse_args()
print(os.environ.get("RANK"), json.dumps([found.lr, found.words, len(found.api_key)]), flush=True)
"""
SECRET = "hunter2-is-no-key"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_namespaces()
    directory = tmp_path / "a project"
    directory.mkdir()
    (directory / "train.py").write_text(TRAIN)
    with open_terminal(directory) as found:
        yield found


def _job(name: str, *commands: list[str], **spec: object) -> dict[str, object]:
    tasks = [
        {
            "name": f"t{number}",
            "replicas": 1,
            "template": {
                "spec": {"containers": [{"name": "c", "image": "x", "command": command}], "restartPolicy": "Never"}
            },
        }
        for number, command in enumerate(commands)
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": tasks, **spec},
    }


def _write(terminal: Terminal, *jobs: dict[str, object], name: str = "job.yaml") -> str:
    (terminal.workspace.directory / name).write_text(yaml.safe_dump_all(jobs))
    return name


def test_arguments_reach_the_program_as_they_were_typed(terminal: Terminal) -> None:
    file = _write(terminal, _job("args", ["python3", "train.py"], ["sh", "-c", 'exec python3 "$PWD/train.py" "$@"']))
    done = terminal("run", file, "--no-prefix", "--", "--lr", "0.1", "a b", "$(HOME) $$", "é")
    assert done.out.splitlines() == ['None [0.1, ["a b", "$(HOME) $$", "\\u00e9"], 0]'] * 2
    assert "  args --lr 0.1 'a b' '$(HOME) $$' 'é'" in done.err.splitlines()
    assert "--lr 0.1 'a b' '$(HOME) $$' 'é'" in terminal("history", "args").out
    assert [each["args"] for each in terminal.items("-a")] == [["--lr", "0.1", "a b", "$(HOME) $$", "é"]]


def test_each_of_several_submitted_files_gets_the_arguments(terminal: Terminal) -> None:
    files = [_write(terminal, _job(name, ["python3", "train.py"]), name=f"{name}.yaml") for name in ("one", "two")]
    runs = terminal("submit", *files, "--", "--lr=3").out.split()
    assert runs == ["one:1", "two:1"]
    terminal("wait", *runs)
    assert [terminal("logs", run, "--no-prefix").out for run in runs] == ["None [3.0, [], 0]\n"] * 2


def test_a_project_has_arguments_and_flags_replace_them(terminal: Terminal) -> None:
    file = _write(terminal, _job("toml", ["python3", "train.py"]))
    (terminal.workspace.directory / "pumice.toml").write_text('args = ["--lr", 7]\n')
    assert terminal("run", file, "--no-prefix").out == "None [7.0, [], 0]\n"
    assert terminal("run", file, "--no-prefix", "--", "x").out == 'None [1.0, ["x"], 0]\n'
    assert terminal("run", file, "--no-prefix", "--").out == "None [1.0, [], 0]\n"


def test_of_a_failed_run_the_next_step_has_the_arguments(terminal: Terminal) -> None:
    (terminal.workspace.directory / "bad.py").write_text("import not_here")
    file = _write(terminal, _job("bad", ["python3", "bad.py"]))
    failed = terminal("run", file, "--", "--lr", "0.1", "--token=x", code=1)
    assert "next          pumice run job.yaml --python PATH -- --lr 0.1 --token=***     PATH has not_here" in failed.err
    failed = terminal("run", "bad.py", "--workers=1", "--", "--lr", "2", code=1)
    assert "next          pumice run bad.py --workers 1 --python PATH -- --lr 2     PATH has not_here" in failed.err


def test_a_container_without_a_command_needs_an_image_or_an_entrypoint(terminal: Terminal) -> None:
    job = _job("bare", [])
    file = _write(terminal, job)
    refused = terminal("run", file, "--", "--lr", "3", code=2)
    assert "has neither command nor args, and what its image x runs is not known here" in refused.err
    done = terminal("run", file, "--entrypoint", "x=python3 train.py", "--no-prefix", "--", "--lr", "3")
    assert done.out == "None [3.0, [], 0]\n"


def test_the_launcher_alone_gets_the_arguments_of_an_mpi_job(terminal: Terminal) -> None:
    spec = {"plugins": {"mpi": ["--master=t1", "--worker=t0"]}}
    show = 'echo $0 got "$@"'
    file = _write(terminal, _job("mpi", ["sh", "-c", show], ["sh", "-c", show], **spec))
    done = terminal("run", file, "--", "--x", "1")
    assert sorted(done.out.splitlines()) == ["t0-0  sh got", "t1-0  sh got --x 1"]


def test_secret_values_are_nowhere_but_in_the_program(terminal: Terminal) -> None:
    file = _write(terminal, _job("key", ["python3", "train.py"]))
    done = terminal("run", file, "--no-prefix", "--", "--api-key", SECRET)
    assert done.out == f"None [1.0, [], {len(SECRET)}]\n"
    assert "  args --api-key ***" in done.err.splitlines()
    for words in (("ps",), ("history", "key"), ("get", "key"), ("get", "key", "-o", "yaml"), ("export", "key")):
        assert SECRET not in terminal(*words).out
    for path in terminal.workspace.directory.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    written = terminal("get", "key", "-o", "yaml").out
    assert "$(ARG_API_KEY)" in written
    again = terminal.workspace.directory / "again.yaml"
    again.write_text(written)
    assert terminal("run", "again.yaml", "--no-prefix", "--env", "ARG_API_KEY=1234").out == "None [1.0, [], 4]\n"


def test_a_run_whose_secret_argument_is_gone_waits_for_it(terminal: Terminal) -> None:
    file = _write(terminal, _job("key", ["python3", "train.py"]))
    run = terminal("submit", "--hold", file, "--", "--api-key", SECRET, "--lr", "2").out.strip()
    # As after a restart of the machine: the runtime directory is in memory.
    shutil.rmtree(terminal.workspace.directory / "pumice" / "secrets", ignore_errors=True)
    assert not [path for path in terminal.workspace.directory.rglob("secrets*") if path.is_file()]
    terminal("resume", run)
    terminal.until(lambda: "ARG_API_KEY" in terminal("ps", "-a").out)
    [row] = [line for line in terminal("ps", "-a").out.splitlines() if line.startswith(run)]
    assert "--api-key *** --lr 2 · " in row
    assert f"pumice resume {run} --env ARG_API_KEY" in row
    terminal("resume", run, "--env", f"ARG_API_KEY={SECRET}")
    terminal("wait", run)
    assert terminal("logs", run, "--no-prefix").out == f"None [2.0, [], {len(SECRET)}]\n"


def test_a_run_that_waits_shows_its_arguments_and_why(terminal: Terminal) -> None:
    file = _write(terminal, _job("held", ["python3", "train.py"]))
    terminal("submit", "--hold", file, "--note", "try", "--", "--lr", "4")
    [row] = terminal("ps").out.splitlines()[1:]
    assert re.search(r"--lr 4 · try · .*resume", row), row


def test_a_script_runs_without_a_file(terminal: Terminal) -> None:
    done = terminal("run", "train.py", "--workers", "3", "--framework", "torch", "--", "--lr", "2")
    assert sorted(done.out.splitlines()) == [
        "master-0  0 [2.0, [], 0]",
        "worker-0  1 [2.0, [], 0]",
        "worker-1  2 [2.0, [], 0]",
    ]
    assert done.err.splitlines()[0] == "train.py: 3 ranks: master 1 + worker 2; runs with torch"
    assert sorted(path.name for path in terminal.workspace.directory.glob("*.yaml")) == []
    [found] = terminal.items("-a")
    assert (found["run"], found["file"], found["args"]) == ("train:1", "train.py", ["--lr", "2"])
    again = terminal.workspace.directory / "train.yaml"
    again.write_text(terminal("get", "train", "-o", "yaml").out)
    assert terminal("validate", "train.yaml").err == "train.yaml: train: good (3 pods)\n"
    assert sorted(terminal("run", "train.yaml").out.splitlines()) == sorted(done.out.splitlines())


def test_a_script_is_submitted_under_a_name(terminal: Terminal) -> None:
    run = terminal("submit", "train.py", "--workers=1", "--name=sweep", "--", "--lr=5").out.strip()
    assert run == "sweep:1"
    terminal("wait", run)
    assert terminal("logs", run).out == "master-0  0 [5.0, [], 0]\n"


def test_shell_scripts_and_programs_run_too(terminal: Terminal) -> None:
    directory = terminal.workspace.directory
    (directory / "say.sh").write_text('echo "$@"\n')
    (directory / "program").write_text('#!/bin/sh\necho program "$@"\n')
    (directory / "program").chmod(0o755)
    assert terminal("run", "say.sh", "--workers=1", "--", "a b", "c").out == "master-0  a b c\n"
    assert terminal("run", "program", "--workers=1", "--", "x").out == "master-0  program x\n"


def test_a_detached_run_of_a_script_outlives_a_change_of_the_directory(terminal: Terminal) -> None:
    assert terminal("run", "-d", "train.py", "--workers=1", "--", "--lr=6").out == "train:1\n"
    terminal("wait", "train:1")
    shown = json.loads(terminal("get", "train:1", "-o", "json").out)
    assert shown["run"]["args"] == ["--lr=6"]
    assert terminal("attach", "train:1").err.count("  args --lr=6\n") == 1


def test_arguments_from_python(pumice_client: pumice.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_namespaces()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    task = pumice.task("w", command=["python3", "train.py"])
    run = pumice_client.submit(pumice.job("trial", tasks=[task]), args=["--lr", 0.5, "--api-key", SECRET])
    run.wait(check=True)
    assert [line.text for line in run.logs()] == [f"None [0.5, [], {len(SECRET)}]"]
    assert list(run.status().args) == ["--lr", "0.5", "--api-key", "***"]
    with pytest.raises(pumice.InvalidOption, match="args: --lr 1: must be a list of texts"):
        pumice_client.submit(pumice.job("trial", tasks=[task]), args="--lr 1")
    shell = pumice.task("w", command=["sh", "-c", "python3 train.py"])
    with pytest.raises(pumice.InvalidOption, match=r'write: python3 train.py "\$@"'):
        pumice_client.submit(pumice.job("trial", tasks=[shell]), args=["--lr", 1])
