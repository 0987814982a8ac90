from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from pumice.cli.main import COMMANDS, GROUPS
from tests.patience import PATIENCE
from tests.unit.cli.running import COMMAND, JOB, PYTORCH, Terminal


def test_without_arguments_help_goes_to_stderr(terminal: Terminal) -> None:
    code, out, err = terminal.run()
    assert (code, out) == (2, "")
    assert err.startswith("usage: pumice ")
    assert [command for command in COMMANDS if not re.search(rf"^  {command}\s", err, re.MULTILINE)] == []
    assert re.findall(r"^(\S.*):$", err, re.MULTILINE) == ["options", *GROUPS]


def test_help_goes_to_stdout(terminal: Terminal) -> None:
    code, out, err = terminal.run("--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: pumice ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command: str, terminal: Terminal) -> None:
    code, out, err = terminal.run(command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: pumice {command} ")
    assert COMMANDS[command][1] in out


def test_version(terminal: Terminal) -> None:
    assert terminal.run("--version") == (0, f"pumice {version('pumice')}\n", "")


@pytest.mark.parametrize(
    ("word", "suggestion"),
    [
        pytest.param("rendr", "did you mean render? ", id="mistyped"),
        pytest.param("rn", "did you mean run? ", id="a letter is missing"),
        pytest.param("frobnicate", "", id="unknown"),
    ],
)
def test_unknown_command(word: str, suggestion: str, terminal: Terminal) -> None:
    hint = f"  hint: {suggestion}pumice --help lists the commands\n"
    assert terminal.run(word, "job.yaml") == (2, "", f"pumice: {word}: no such command\n{hint}")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["validate"], "pumice validate: error: the following arguments are required: FILE", id="missing"),
        pytest.param(
            ["validate", "a.yaml", "--frob"], "pumice validate: error: unknown arguments: --frob", id="unknown"
        ),
        pytest.param(["render", "a.yaml", "b.yaml"], "pumice render: error: unknown arguments: b.yaml", id="too many"),
        pytest.param(["schema", "a.yaml"], "pumice schema: error: unknown arguments: a.yaml", id="takes none"),
        pytest.param(
            ["run", "a.yaml", "--fot", "--timout=1s"],
            "pumice run: error: unknown arguments: --fot --timout=1s\n  hint: did you mean --fit? "
            "arguments of the program go after --: pumice run a.yaml -- --fot --timout=1s",
            id="mistyped",
        ),
        pytest.param(
            ["run", "train.yaml", "--lr", "0.1", "--fit", "x=1"],
            "pumice run: error: unknown arguments: --lr 0.1 x=1\n  hint: "
            "arguments of the program go after --: pumice run train.yaml --fit -- --lr 0.1 x=1",
            id="arguments of the program",
        ),
        pytest.param(
            ["submit", "train.yaml", "--fail", "exception"],
            "pumice submit: error: unknown arguments: --fail exception\n  hint: did you mean --fit? "
            "arguments of the program go after --: pumice submit train.yaml -- --fail exception",
            id="arguments of the program of a submitted job",
        ),
        pytest.param(["run"], "pumice run: error: the following arguments are required: FILE", id="no file to run"),
        pytest.param(
            ["run", "train.py", "train.py"],
            "pumice run: error: unknown arguments: train.py\n  hint: "
            "arguments of the program go after --: pumice run train.py -- train.py",
            id="the same word twice",
        ),
        pytest.param(
            ["run", "--fit", "python3.12", "-u", "src/train.py", "--lr", "3"],
            "pumice run: error: unknown arguments: -u src/train.py --lr 3\n  hint: "
            "name the script itself: pumice run --fit src/train.py -- --lr 3",
            id="with an interpreter",
        ),
        pytest.param(
            ["run", "python", "train.py"],
            "pumice run: error: unknown arguments: train.py\n  hint: name the script itself: pumice run train.py",
            id="with an interpreter alone",
        ),
        pytest.param(
            ["run", "train.yaml", "--lr", "--", "x"],
            "pumice run: error: unknown arguments: --lr\n  hint: pumice run --help lists the arguments",
            id="there are arguments after --",
        ),
    ],
)
def test_wrong_arguments(words: list[str], problem: str, terminal: Terminal) -> None:
    code, out, err = terminal.run(*words)
    assert (code, out) == (2, "")
    hint = "" if "hint:" in problem else f"  hint: pumice {words[0]} --help lists the arguments\n"
    assert err == f"{problem}\n{hint}"


def test_the_installed_program() -> None:
    program = Path(sys.executable).with_name("pumice")
    done = subprocess.run([program, "validate", PYTORCH], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"{PYTORCH}: pytorch-job: good (3 pods)\n"


def test_a_closed_pipe(tmp_path: Path) -> None:
    """The output is larger than the buffer of a pipe, so the command is still writing when the reader closes it."""
    (tmp_path / "big.yaml").write_text(JOB.replace("replicas: 2", "replicas: 3000"), encoding="utf-8")
    with subprocess.Popen(
        [*COMMAND, "render", "big.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"apiVersion: scheduling.volcano.sh/v1beta1\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, "pumice: no space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["validate", PYTORCH], ["schema"], ["run", PYTORCH]], ids=lambda words: words[0])
def test_full_disk_for_both_streams(words: list[str]) -> None:
    """Python itself would exit with another code if it cannot flush its streams."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=full, check=False, timeout=PATIENCE)
    assert done.returncode == 1


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream(closed: str) -> None:
    """As by `>&-` in a shell: nothing else changes."""
    number = {"stdout": 1, "stderr": 2}[closed]
    script = f"import os; os.close({number}); os.execv({COMMAND[0]!r}, {[*COMMAND, 'validate', 'missing.yaml']!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    found = "missing.yaml: no such file\n  hint: check the spelling\n"
    expected = ("", "1 error\n") if closed == "stdout" else (found, "")
    assert (done.returncode, done.stdout, done.stderr) == (2, *expected)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param("validate", rb"metadata.name: \u5c71x: must be lower-case", id="messages are escaped"),
        pytest.param("render", "value: 山".encode(), id="manifests are UTF-8"),
    ],
)
def test_a_terminal_with_few_characters(command: str, shown: bytes, tmp_path: Path) -> None:
    job = JOB.replace("image: busybox", "image: busybox\n          env: [{name: A, value: 山}]")
    named = job if command == "render" else job.replace("name: small", "name: 山x")
    (tmp_path / "job.yaml").write_text(named, encoding="utf-8")
    done = subprocess.run(
        [*COMMAND, command, "job.yaml"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        timeout=PATIENCE,
    )
    assert b"Traceback" not in done.stderr
    assert shown in done.stdout


def test_interrupted(tmp_path: Path) -> None:
    """The command waits for input from a pipe.

    Python does not notice an interrupt right before it starts to wait until another one arrives.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([*COMMAND, "validate", str(pipe)], stderr=subprocess.PIPE) as process:
        writing = _open_once_read(pipe, process)
        for _ in range(20):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(3)
                break
        assert process.returncode == 130
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def _open_once_read(pipe: Path, process: subprocess.Popen[bytes]) -> int:
    """Opening for writing succeeds only after the process has opened the pipe for reading."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            os.sched_yield()
    raise AssertionError("the command ended before it read its file")


def on_terminal(*words: str, **env: str) -> str:
    """The output of a command on a terminal, stdout and stderr together."""
    main, other = pty.openpty()
    settings = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    with subprocess.Popen([*COMMAND, *words], stdout=other, stderr=other, env={**settings, **env}) as process:
        os.close(other)
        shown = b""
        while chunk := _read(main):
            shown += chunk
        process.wait(PATIENCE)
    os.close(main)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer has closed its end.
        return b""


def test_colour_on_a_terminal() -> None:
    shown = on_terminal("validate", "missing.yaml", TERM="xterm")
    assert shown == "\x1b[1mmissing.yaml\x1b[0m: no such file\n  hint: check the spelling\n1 error\n"


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}], ids=["NO_COLOR", "a terminal without colour"]
)
def test_colour_can_be_switched_off(env: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal("validate", "missing.yaml", **env)
