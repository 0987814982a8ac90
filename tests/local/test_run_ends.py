"""How a run ends before its job does: by keys, signals, time, or because nobody reads; and nothing is left."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.store.files import run_directory
from tests.local.running import Workspace, job, processes, scripted, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal

SIGNALS = [pytest.param(signal.SIGINT, 130, id="Ctrl-C"), pytest.param(signal.SIGTERM, 143, id="SIGTERM")]
# Says when it is up, and ends when it is told to, with a word.
POLITE = "trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.05; done"
# Does not end, whatever it is told.
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.configure("")  # with a way out of the job's network, which ends with the run
    return made


def _started(workspace: Workspace, script: str, grace: int) -> subprocess.Popen[str]:
    pod = {"terminationGracePeriodSeconds": grace}
    process = workspace.start_python(job(task("only", script, pod=_pod(script) | pod)))
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    return process


def _pod(script: str) -> dict[str, object]:
    container = {"name": "only", "image": "nowhere", "command": ["sh", "-c", script]}
    return {"restartPolicy": "Never", "containers": [container]}


def _nothing_left(workspace: Workspace) -> None:
    deadline = time.monotonic() + PATIENCE
    while left := processes(str(workspace.directory)):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not list((workspace.state / "runs").glob("*/*/*/scratch"))


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_once_is_graceful(workspace: Workspace, number: int, code: int) -> None:
    process = _started(workspace, POLITE, grace=60)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert "farewell" in out
    assert "stopping: the pods have up to 60s to end; Ctrl-C ends them at once" in err
    assert "failed first" not in err
    _nothing_left(workspace)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_twice_is_at_once(workspace: Workspace, number: int, code: int) -> None:
    process = _started(workspace, STUBBORN, grace=1000)
    process.send_signal(number)
    assert process.stderr is not None
    while "stopping" not in process.stderr.readline():
        pass
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in err
    _nothing_left(workspace)


def test_who_does_not_end_is_killed_when_the_grace_is_over(workspace: Workspace) -> None:
    process = _started(workspace, STUBBORN, grace=1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    _nothing_left(workspace)


@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_a_pod_does_not_inherit_ignored_signals(workspace: Workspace, isolation: str) -> None:
    workspace.background = True
    process = workspace.start_python(
        job(task("only", "grep SigIgn /proc/self/status")), flags=[f"--isolation={isolation}"]
    )
    out, err = process.communicate(timeout=PATIENCE)
    ignored = int(out.split()[-1], 16)
    assert {number for number in signal.valid_signals() if ignored >> (number - 1) & 1} == set(), err


def test_an_ignored_interrupt_stays_ignored_and_sigterm_ends_the_job(workspace: Workspace) -> None:
    workspace.background = True
    process = _started(workspace, POLITE, grace=60)
    process.send_signal(signal.SIGINT)
    # It would have been noticed first: signals of different numbers arrive in the order of their numbers.
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, err
    assert "farewell" in out


def test_timeout_is_graceful_and_says_what_to_type(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", POLITE, pod=_pod(POLITE))), flags=["--timeout=5s"])
    assert result.code == 124, result.err
    # A machine that is too busy for it to start within that time can do without.
    assert ("up" in result.out) == ("farewell" in result.out)
    first, *doing, logs, last = result.verdict
    assert first == "trial ran longer than its timeout of 5s and was stopped"
    assert Path(logs.removeprefix("  logs").strip()).is_dir()
    # It may not have started, and may have ended when it was looked at.
    assert all(line.startswith("  was doing     only-0: ") for line in doing)
    assert last in ("  next          pumice run job.yaml --keep", "  next          pumice logs trial:1 --tail 30")
    _nothing_left(workspace)


def test_timeout_in_json(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "sleep 100")), flags=["--timeout=500ms", "--json"])
    events = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 124
    assert [event["reason"] for event in events if event["type"] == "verdict"] == ["Timeout"]
    assert events[-1]["code"] == 124


def test_ctrl_c_on_a_terminal(workspace: Workspace) -> None:
    """The key reaches everyone on the terminal; the pods are not on it."""
    terminal = OnTerminal(
        workspace.argv(job(task("only", POLITE, pod=_pod(POLITE)))), workspace.directory, workspace.env
    )
    terminal.read_until("up")
    terminal.read_until("Running 1/1")
    terminal.type(b"\x03")
    assert terminal.read_to_end() == 130
    assert "farewell" in terminal.screen.text
    assert "Traceback" not in terminal.screen.text
    _nothing_left(workspace)


def test_a_reader_that_has_seen_enough_ends_the_job(workspace: Workspace) -> None:
    endless = "trap 'exit 0' TERM; while :; do echo more; done"
    process = workspace.start_python(job(task("only", endless, pod=_pod(endless))))
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "more" in process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode == 141, err
    assert "Traceback" not in err
    assert "Exception" not in err
    _nothing_left(workspace)


def test_output_that_cannot_be_written_ends_the_job(workspace: Workspace) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            workspace.argv(job(task("only", "echo words; sleep 100"))),
            cwd=workspace.directory,
            env=workspace.env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert "output: no space left on device; the job is stopped" in done.stderr
    assert "Traceback" not in done.stderr
    why = workspace.pumice("why", "trial")
    assert (why.code, why.out.splitlines()[0]) == (0, "its output could not be written: no space left on device")
    state = workspace.pumice("ps", "-o", "json")
    assert json.loads(state.out)["items"][0]["outcome"] == "Failed", "nobody asked for it"
    _nothing_left(workspace)


def test_closed_streams(workspace: Workspace) -> None:
    """As in `pumice run job.yaml >&- 2>&-`."""
    argv = workspace.argv(job(task("only", "echo words; exit 3"), maxRetry=1))
    closing = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *argv]
    done = subprocess.run(closing, cwd=workspace.directory, env=workspace.env, timeout=PATIENCE, check=False)
    assert done.returncode == 3
    logs = [path.read_text() for path in workspace.state.rglob("*.log")]
    assert logs == ["words\n"]


@pytest.mark.parametrize("code", [pytest.param(0, id="good"), pytest.param(7, id="bad")])
def test_nothing_is_left_of_a_job_that_ended_by_itself(workspace: Workspace, code: int) -> None:
    background = f"sleep 1000.25 & setsid sleep 1000.25 & exit {code}"
    result = workspace.run(job(task("only", background, 2, container=scripted("sh", "-c", background)), maxRetry=1))
    assert result.code == code, result.err
    _nothing_left(workspace)
    assert {path.name for path in (workspace.state / "stage").iterdir()} <= {"lock"}


def test_files_that_cannot_be_removed_do_not_change_how_the_job_ended(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))

    monkeypatch.setattr(run_directory, "remove_tree", refuse)
    monkeypatch.chdir(workspace.directory)
    for name, value in workspace.env.items():
        monkeypatch.setenv(name, value)
    assert main(["run", workspace.write(job(task("w", "echo hello; exit 3")))]) == 3
    written = capfd.readouterr()
    assert "hello" in written.out
    assert "Directory not empty" not in written.err
