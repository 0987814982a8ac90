"""A run whose surroundings change: the terminal goes, it is stopped for a while, there is little of anything."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.local.killing import Traces, scratch
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

# What it becomes is the leader of a session that has the terminal: who is told when that goes.
LEAD = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
# A leader that stays, so that what it starts has no signal when the terminal goes, only output that fails.
STAY = """import os, signal, subprocess, sys
os.login_tty(0)
signal.signal(signal.SIGHUP, lambda number, frame: None)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
# Asked to end, it does so when a file is there.
SLOW_FAREWELL = "trap 'echo asked; until [ -e go ]; do sleep 0.1; done; echo farewell; exit 0' TERM"
SLOW_FAREWELL += "; echo up; while :; do sleep 0.1; done"
GRACE = {"terminationGracePeriodSeconds": 60}  # more than a shell needs to answer on a loaded machine
FAREWELL = "trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.1; done"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    need_namespaces()
    return Workspace(tmp_path)


def _logs(workspace: Workspace) -> str:
    return "".join(path.read_text() for path in (workspace.state / "runs").rglob("*.log"))


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("ignored", [pytest.param(False, id="ended"), pytest.param(True, id="nohup")])
def test_closed_terminal_ends_the_job_gracefully(workspace: Workspace, ignored: bool) -> None:
    """Unless the user has said beforehand that it shall go on."""
    master, slave = pty.openpty()
    traces = Traces.before(workspace.directory)
    argv = workspace.argv(job(task("only", "echo up; sleep 2; echo farewell" if ignored else FAREWELL, pod=GRACE)))
    process = subprocess.Popen(
        [sys.executable, "-c", LEAD, *(["nohup"] if ignored else []), *argv],
        cwd=workspace.directory,
        env=workspace.env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    try:
        os.close(slave)
        _wait_for(lambda: process.poll() is not None or "up" in _logs(workspace))
        traces.look(process.pid)
        os.close(master)
        traces.killed()
        assert process.wait(timeout=PATIENCE) == (0 if ignored else 129)
    finally:
        process.kill()
    assert "farewell" in _logs(workspace)
    why = workspace.pumice("why", "trial").out
    assert why.startswith("trial:1 Succeeded: " if ignored else "trial:1 Stopped: its terminal was closed\n")
    traces.gone_after()
    assert scratch(workspace.directory) == []


def test_closed_terminal_whose_signal_comes_after_the_output_failed(workspace: Workspace) -> None:
    """The signal is the first one that the run gets, so its pods keep their grace period."""
    master, slave = pty.openpty()
    argv = workspace.argv(job(task("only", SLOW_FAREWELL, pod=GRACE)))
    process = subprocess.Popen(
        [sys.executable, "-c", STAY, *argv],
        cwd=workspace.directory,
        env=workspace.env,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    try:
        os.close(slave)
        _wait_for(lambda: process.poll() is not None or "up" in _logs(workspace))
        os.close(master)
        _wait_for(lambda: process.poll() is not None or "asked" in _logs(workspace))
        os.killpg(process.pid, signal.SIGHUP)
        time.sleep(1)  # in which a run that heard it as a second signal would kill the pod
        (workspace.directory / "go").touch()
        assert process.wait(timeout=PATIENCE) == 129
    finally:
        process.kill()
    assert "farewell" in _logs(workspace)


def test_stopped_for_a_while(workspace: Workspace) -> None:
    """Pods go on meanwhile; what they have printed and how they have ended is not lost."""
    process = workspace.start_python(job(task("only", "echo up; sleep 1; seq 1 20000; exit 3", 2), maxRetry=1))
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    time.sleep(3)
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, err
    assert out.count("20000") == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_nobody_reads_the_output(workspace: Workspace, number: signal.Signals, code: int) -> None:
    """As with a pager that waits for a key: pumice waits for it, and hears of a signal only when there are two."""
    traces = Traces.before(workspace.directory)
    process = workspace.start_python(job(task("only", "seq 1 1000000; sleep 1000")))
    try:
        _wait_for(lambda: process.poll() is not None or _stands_still(workspace))
        traces.look(process.pid)
        _wait_for(lambda: _has_ended_after(process, number))
        traces.killed()
        assert process.returncode == code
    finally:
        process.kill()
        process.communicate()
    traces.gone_after()


def _stands_still(workspace: Workspace) -> bool:
    """Whether nothing more is taken of what the pod prints."""
    before = _logs(workspace)
    time.sleep(2)
    return before != "" and before == _logs(workspace)


def _has_ended_after(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    process.send_signal(number)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    return process.returncode is not None


def test_working_directory_that_goes_away(workspace: Workspace) -> None:
    """Pods have it mounted and go on; only a new one cannot have it any more."""
    work = workspace.directory / "work"
    work.mkdir()
    inner = Workspace(work, {"XDG_STATE_HOME": str(workspace.directory / "state")})
    process = inner.start_python(job(task("only", "echo up; sleep 1; echo on")))
    assert process.stdout is not None
    assert "up" in process.stdout.readline()
    shutil.rmtree(work)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "on" in out


def _limited(number: int, soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(number, (soft, hard))


def _run_limited(
    workspace: Workspace, limit: Callable[[], None], pods: int, *flags: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        workspace.argv(job(task("only", "ulimit -n", pods), maxRetry=1), flags=["--network=job", *flags]),
        cwd=workspace.directory,
        env=workspace.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        preexec_fn=limit,
    )


def test_soft_limit_of_open_files_is_no_limit_for_pumice_and_stays_one_for_pods(workspace: Workspace) -> None:
    done = _run_limited(workspace, _limited(resource.RLIMIT_NOFILE, 64, 1000), 40)
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["64"] * 40


def test_hard_limit_of_open_files_is_reported_before_anything_starts(workspace: Workspace) -> None:
    done = _run_limited(workspace, _limited(resource.RLIMIT_NOFILE, 256, 256), 64)
    assert done.returncode == 2
    assert "64 pods need" in done.stderr
    assert "hint: raise the hard limit (ulimit -n" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_started_by_somebody_who_ignores_the_end_of_children(workspace: Workspace, isolation: str) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    done = _run_limited(workspace, ignore, 2, f"--isolation={isolation}")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may have as many processes as it likes")
@pytest.mark.parametrize("isolation", ["auto", "process"])
def test_no_further_process_is_reported_and_nothing_is_left(workspace: Workspace, isolation: str) -> None:
    done = _run_limited(workspace, _limited(resource.RLIMIT_NPROC, 1, 1), 2, f"--isolation={isolation}")
    assert done.returncode == 2
    assert "no further process is allowed: see ulimit -u" in done.stderr
    assert "Traceback" not in done.stderr
    assert scratch(workspace.directory) == []
