"""Which files are scripts, and what is said of files that are neither that nor Job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.client.script_jobs import is_script
from pumice.store.run_errors import InvalidOption
from tests.unit.cli.running import JOB, Terminal

HINT = "  hint: a Job file is YAML, such as train.yaml; a script ends with .py or .sh, or is executable\n"


@pytest.mark.parametrize(
    ("name", "content", "mode", "expected"),
    [
        pytest.param("train.py", b"print()", 0o600, True, id="Python"),
        pytest.param("train.sh", b"true", 0o600, True, id="shell"),
        pytest.param("train", b"#!/bin/sh\n", 0o700, True, id="a program"),
        pytest.param("train", b"\x7fELF\0\0", 0o700, True, id="a binary"),
        pytest.param("job.yaml", b"#!/bin/sh\n", 0o700, False, id="the suffix decides"),
        pytest.param("job.json", b"{}", 0o600, False, id="JSON"),
        pytest.param("job.txt", b"# one\nkind: Job\n", 0o600, False, id="a Job of another suffix"),
        pytest.param("job", "kind: Job".encode("utf-16"), 0o600, False, id="a Job in UTF-16"),
        pytest.param("empty", b"", 0o600, False, id="empty"),
    ],
)
def test_what_a_file_is(name: str, content: bytes, mode: int, expected: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(mode)
    assert is_script(str(path)) is expected


@pytest.mark.parametrize("file", ["-", "/dev/null", "missing.yaml", "missing", "nul\0", "x" * 5000])
def test_who_reads_it_says_what_is_wrong(file: str) -> None:
    assert is_script(file) is False


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param(
            "missing.py", "no such file\n  hint: name a script, such as train.py, or a Job file\n", id="missing"
        ),
        pytest.param("trian.py", "no such file\n  hint: did you mean train.py?\n", id="mistyped"),
        pytest.param(
            "train.yaml",
            "no such file\n  hint: pumice run train.py runs the script; pumice init train.py writes it\n",
            id="a Job file that was not written",
        ),
        pytest.param("train", "no such file\n  hint: did you mean train.py?\n", id="without its suffix"),
        pytest.param("train.pyc", "no such file\n  hint: did you mean train.py?\n", id="another suffix"),
        pytest.param("train.py.yaml", "no such file\n  hint: did you mean train.py?\n", id="two suffixes"),
        pytest.param(
            "train.py --lr 0.1",
            "no such file\n  hint: arguments of the program go after --: pumice run train.py -- --lr 0.1\n",
            id="with its arguments",
        ),
        pytest.param("src", "is a directory\n  hint: name a script or a Job file in it\n", id="a directory"),
        pytest.param("empty.py", "is empty\n  hint: write the program first\n", id="empty"),
        pytest.param("notes.txt", f"is neither a Job file nor a script\n{HINT}", id="text"),
        pytest.param("image.png", "is neither a Job file nor a script: it is not text\n", id="binary"),
        pytest.param(
            "binary.py", "is neither a Job file nor a script: it is not text\n", id="a binary named as a script"
        ),
        pytest.param("tool", "is a program that is not executable\n  hint: chmod +x tool\n", id="not executable"),
    ],
)
@pytest.mark.parametrize("command", ["run", "submit"])
def test_mistakes_get_help_and_no_errors_of_yaml(file: str, expected: str, command: str, terminal: Terminal) -> None:
    terminal.write("print()", "train.py")
    terminal.write("", "empty.py")
    terminal.write("some notes: of mine\n", "notes.txt")
    terminal.write("#!/bin/sh\n", "tool")
    for name in ("image.png", "binary.py"):
        (terminal.folder / name).write_bytes(b"\x89PNG\0\0")
    (terminal.folder / "src").mkdir()
    assert terminal.run(command, file) == (2, "", f"{file}: {expected}")


def test_options_of_scripts_are_refused_for_job_files(terminal: Terminal) -> None:
    terminal.write(JOB, "job.yaml")
    result = terminal.run("run", "job.yaml", "--workers", "2", "--name", "x", "--gpus", "1", "--framework", "mpi")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[::2] == [
        f"--{name}: is for scripts, and job.yaml is a Job file" for name in ("name", "workers", "gpus", "framework")
    ]
    assert "  hint: write replicas of its tasks; --scale TASK=N overrides them" in result.err.splitlines()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(("--workers", "0"), "--workers: 0: must be a number from 1 to 999\n", id="no rank"),
        pytest.param(("--gpus", "x"), "--gpus: x: must be a number from 0 to 999\n", id="GPUs"),
        pytest.param(("--name", "My"), "--name: My: must be lower-case", id="a name"),
        pytest.param(("--name", "a" * 60), "train.py: spec.tasks[0].name: ", id="a name that is too long"),
        pytest.param(("--args-for", "master"), "--args-for: there are no arguments\n", id="no arguments"),
        pytest.param(("--args-for", "x", "--", "1"), "train.py: spec.tasks: no task is named x\n", id="a task"),
    ],
)
def test_mistakes_about_a_script(flags: tuple[str, ...], message: str, terminal: Terminal) -> None:
    terminal.write("print()", "train.py")
    result = terminal.run("submit", "train.py", *flags)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_script_that_ignores_arguments_is_named_by_its_line(terminal: Terminal) -> None:
    script = "|\n                  cd /app\n                  python3 train.py | tee log"
    text = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: a}}
spec:
  tasks:
    - template:
        spec:
          containers:
            - name: a
              image: a
              command:
                - sh
                - -c
                - {script}
"""
    terminal.write(text, "job.yaml")
    result = terminal.run("submit", "job.yaml", "--", "--lr", "1")
    assert (result.code, result.out) == (2, "")
    first, second = result.err.splitlines()
    assert first.startswith(
        "job.yaml:16: spec.tasks[0].template.spec.containers[0].command[2]: python3 train.py | tee log: "
    )
    assert second == '  hint: write: python3 train.py "$@" | tee log'


def test_not_a_list_of_arguments_in_toml(terminal: Terminal) -> None:
    terminal.write(JOB, "job.yaml")
    terminal.write('args = "--lr 1"\n', "pumice.toml")
    result = terminal.run("submit", "job.yaml")
    assert result.err == 'pumice.toml: args: --lr 1: must be a list of texts, such as ["--lr", "0.1"]\n'


def test_is_script_raises_a_public_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="is a directory"):
        is_script(str(tmp_path))
