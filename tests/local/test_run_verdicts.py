"""The last words about jobs that failed for real, and the code that the program ends with; restarts on the way."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.main import COMMANDS
from tests.fork_server import fork_server
from tests.local.running import MODULES, Manifest, Result, Workspace, job, scripted, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def _check_form(result: Result) -> list[str]:
    """What every verdict has to be; its lines."""
    lines = result.verdict
    assert 1 < len(lines) <= 6, result.err
    assert all(re.fullmatch(r"  [a-z ]{13} \S.*", line) for line in lines[1:]), lines
    # The command, and what it does.
    words = shlex.split(lines[-1].removeprefix("  next").strip().partition("     ")[0])
    assert words[0] == "pumice", lines
    assert words[1] in COMMANDS, lines
    assert "Traceback" not in result.err
    if "failed first" in lines[0]:
        (log,) = [line.removeprefix("  log").strip() for line in lines if line.startswith("  log ")]
        assert Path(log).is_file(), lines
    return lines


FIRST = {"name": "first", "image": "nowhere", "command": ["sh", "-c", "echo 'no data' >&2; exit 5"]}
PYTHON = "import sys; print('fine', flush=True); raise ValueError('it broke')"
GREEDY = {**scripted("python3", "-c", "x = b'x' * (1 << 29)"), "resources": {"limits": {"memory": "64Mi"}}}


def _init(*containers: Manifest) -> Manifest:
    only = task("only", "echo never")
    only["template"]["spec"]["initContainers"] = list(containers)
    return only


@pytest.mark.parametrize(
    ("only", "code", "first", "second"),
    [
        pytest.param(task("only", "echo oh no; exit 7"), 7, "exit code 7", "last line     oh no", id="exit code"),
        pytest.param(
            task("only", "", container=scripted("python3", "-c", PYTHON)),
            1,
            "exit code 1",
            "last line     ValueError: it broke",
            id="exception",
        ),
        pytest.param(
            task(
                "only",
                "",
                container=scripted("python3", "-c", "import ctypes; print('x', flush=1); ctypes.string_at(0)"),
            ),
            139,
            "signal 11 (SIGSEGV)",
            "last line     x",
            id="signal",
        ),
        pytest.param(
            task("only", "", container=GREEDY),
            137,
            "signal 9 (SIGKILL), OOMKilled",
            "cause         it used more than its memory limit, 64Mi (job.yaml:",
            id="out of memory",
        ),
        pytest.param(
            task("only", "", container=scripted("no-such-program")),
            127,
            "exit code 127, StartError",
            "cause         only: no-such-program: command not found",
            id="command that is missing",
        ),
        pytest.param(
            task("only", "sleep 100", pod={"activeDeadlineSeconds": 5}),
            143,
            "signal 15 (SIGTERM), DeadlineExceeded",
            "cause         the pod ran longer than its activeDeadlineSeconds, 5",
            id="deadline of the pod",
        ),
        pytest.param(_init(FIRST), 5, "exit code 5 in container first", "last line     no data", id="init container"),
    ],
)
def test_verdict(workspace: Workspace, only: Manifest, code: int, first: str, second: str) -> None:
    result = workspace.run(job(only, maxRetry=1))
    assert result.code == code, result.err
    lines = _check_form(result)
    assert re.fullmatch(rf"only-0 failed first: {re.escape(first)} after \d+\.\ds", lines[0]), lines
    assert lines[1].startswith(f"  {second}"), lines


def test_a_pod_that_is_killed(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo up; sleep 100"), maxRetry=1), flags=["--kill", "only-0@100ms"])
    assert result.code == 137, result.err
    assert _check_form(result)[0].startswith("only-0 failed first: signal 9 (SIGKILL) after ")


def test_a_script_that_is_not_executable(workspace: Workspace) -> None:
    (workspace.directory / "script.sh").write_text("#!/bin/sh\necho started\n")
    only = task("only", "", container=scripted(str(workspace.directory / "script.sh")))
    result = workspace.run(job(only, maxRetry=1))
    assert result.code == 126, result.err
    assert "script.sh: not executable; chmod +x it" in _check_form(result)[1]


def test_wait_for_master_that_waits_in_vain(workspace: Workspace) -> None:
    plugins = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=1"], "svc": []}
    policies = [{"event": "PodFailed", "action": "TerminateJob"}]
    tasks = [task("master", "sleep 100"), task("worker", "echo never", dependsOn={"name": ["master"]})]
    result = workspace.run(job(*tasks, plugins=plugins, policies=policies))
    assert result.code == 1, result.err
    lines = _check_form(result)
    assert lines[0].startswith("worker-0 failed first: exit code 1 in container wait-for-master after ")
    assert re.fullmatch(r"  last line     gave up on \S+: no answer in \d+s", lines[1]), lines
    # The worker only waited: the master did not listen.
    assert re.fullmatch(r"  waited for    master-0: (sleep|sh) sleeping.*", lines[2]), lines
    assert lines[-3].startswith("  policy        PodFailed -> TerminateJob (policies[0], job.yaml:")


def test_deadline(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "sleep 100"), activeDeadlineSeconds=1))
    assert result.code == 1, result.err
    assert _check_form(result)[0] == "trial failed: the job ran longer than its activeDeadlineSeconds, 1"


def test_the_verdict_of_a_suspended_job_says_what_to_change(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo never"), suspend=True))
    assert (result.code, result.out) == (1, "")
    last = _check_form(result)[-1]
    assert re.fullmatch(r"  next +pumice run job\.yaml     after suspend is set to false \(job\.yaml:\d+\)", last)


def test_retries_are_exhausted(workspace: Workspace) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    result = workspace.run(job(task("only", "echo $VC_TASK_INDEX; exit 4"), policies=policies, maxRetry=2))
    assert result.code == 4
    lines = _check_form(result)
    assert lines[0].endswith("(attempt 2 of 2)")
    assert "  why           all 2 attempts failed (maxRetry)" in lines
    assert result.err.count("only-0 failed: PodFailed -> RestartJob (policies[0], job.yaml:") == 2


def test_a_policy_that_acted_in_an_earlier_attempt_is_not_to_blame(workspace: Workspace) -> None:
    policies = [{"exitCode": 5, "action": "RestartJob"}]
    script = "test -e again && exit 6; touch again; exit 5"
    result = workspace.run(job(task("only", script), policies=policies))
    assert result.code == 6, result.err
    assert "RestartJob" in result.err
    assert not any(line.startswith("  policy ") for line in _check_form(result))


def test_followers_are_distinguished_and_the_policy_is_named_once(workspace: Workspace) -> None:
    """The second dies of what happened to the first; the third was told to end, which is no failure."""
    listen = "import socket,sys; s=socket.create_server(('',9)); c,_=s.accept(); c.recv(1); sys.exit(3)"
    follow = "import socket,sys,time\nwhile True:\n try: c=socket.create_connection(('trial-a-0.trial',9)); break\n"
    follow += " except OSError: time.sleep(0.05)\nc.sendall(b'x'); c.recv(1); time.sleep(0.5); sys.exit(4)"
    tasks = [
        task("a", "", container=scripted("python3", "-c", listen)),
        task("b", "", container=scripted("python3", "-c", follow)),
        task("c", "sleep 100"),
    ]
    policies = [{"event": "PodFailed", "action": "TerminateJob", "timeout": "8s"}]
    result = workspace.run(job(*tasks, plugins={"svc": []}, policies=policies))
    assert result.code == 3, result.err
    lines = _check_form(result)
    assert lines[0].startswith("a-0 failed first: exit code 3 after ")
    assert re.fullmatch(r"  then          b-0 \(exit code 4, \d+\.\ds later\)", lines[1]), lines
    # When the pod failed, when the policy acted, and in the verdict.
    assert result.err.count("PodFailed -> TerminateJob") >= 3, result.err


def test_the_log_is_the_next_to_look_at(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo words; exit 3"), maxRetry=1))
    command = shlex.split(result.verdict[-1].removeprefix("  next"))
    assert command == ["pumice", "logs", "trial:1/only-0", "--tail", "30"]
    shown = fork_server(*MODULES).run(command[1:], cwd=workspace.directory, env=workspace.env)
    assert shown.stdout == "only-0  words\n", shown.stderr
    log = result.verdict[-2].removeprefix("  log").strip()
    assert Path(log).read_text() == "words\n"
    run, directory = re.findall(r"^  run trial:(\d+)   (/.*)$", result.err, re.MULTILINE)[0]
    assert Path(directory).parts[-4:] == ("runs", "default", "trial", run)
    assert Path(log).is_relative_to(directory)


def test_a_failure_is_reported_when_it_happens(workspace: Workspace) -> None:
    """Two pods fail, one of them by --kill; the third waits for a file that appears when both lines were printed."""
    wait = "while [ ! -e go ]; do sleep 0.1; done"
    failing = "if [ $VC_TASK_INDEX = 0 ]; then exit 5; fi; exec sleep 100"
    tasks = [task("w", failing, 2), task("last", wait)]
    process = workspace.start(job(*tasks, plugins={"env": []}), flags=["--kill", "w-1@0s"])
    seen = []
    for line in process.stderr:
        seen.append(line)
        if sum(" failed: " in each for each in seen) == 2:
            break
    (workspace.directory / "go").touch()
    process.communicate(timeout=PATIENCE)
    said = "".join(seen)
    assert re.search(
        r"^\S+ +w-0 failed: exit code 5; no policy acts on PodFailed, the job goes on with [12] of 3$",
        said,
        re.MULTILINE,
    )
    assert re.search(r"^\S+ +w-1 killed by --kill w-1@0s$", said, re.MULTILINE), said
    assert re.search(
        r"^\S+ +w-1 failed: signal 9 \(SIGKILL\); no policy acts on PodFailed, the job goes on", said, re.MULTILINE
    )


def test_the_verdict_of_a_stopped_run_names_what_failed_before(workspace: Workspace) -> None:
    tasks = [task("bad", "echo broken; exit 5"), _looping("loop"), task("good", "sleep 100")]
    process = workspace.start(job(*tasks))
    seen = []
    for line in process.stderr:
        seen.append(line)
        if any("bad-0 failed" in each for each in seen) and any("loop-0 restart 2:" in each for each in seen):
            break
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130, err
    head, failed, restarted, log, last = Result(130, "", err).verdict
    assert head == "trial was stopped by Ctrl-C"
    assert re.fullmatch(r"  failed        bad-0: exit code 5 after \S+: broken", failed), err
    assert re.fullmatch(r"  restarted     loop-0: \d+ restarts?, last exit code 6: no torch", restarted), err
    assert Path(log.split()[1]).read_text() == "broken\n"
    assert last == "  next          pumice logs trial:1/bad-0 --tail 30"


def _looping(name: str) -> Manifest:
    return task(name, "echo 'no torch' >&2; exit 6", pod={"restartPolicy": "OnFailure"})


def _restarting(**spec: Any) -> Manifest:
    only = task("only", "echo attempt; echo 'went wrong' >&2; exit 6")
    only["template"]["spec"]["restartPolicy"] = "OnFailure"
    return job(only, **spec)


def test_restarts_show_code_count_and_last_line_and_after_three_a_hint(workspace: Workspace) -> None:
    # Where a way out of the job's network lacks something, that would be told with a hint of its own.
    process = workspace.start(_restarting(), flags=["--network=job"])
    printed: list[str] = []
    while not printed or "hint" not in printed[-1]:
        line = process.stderr.readline()
        assert line, printed
        printed.append(line.rstrip())
    process.terminate()
    process.communicate(timeout=PATIENCE)
    restarts = [line.split(maxsplit=1)[1] for line in printed if " restart " in line]
    assert restarts == [f"only-0 restart {count}: exit code 6: went wrong" for count in (1, 2, 3)]
    hint = "a policy {event: TaskFailed, action: TerminateJob} of task only would end the job after 3 restarts"
    assert printed[-1] == f"  hint: {hint} (its maxRetry)"
    logs = sorted(workspace.state.glob("runs/*/*/*/pods/only-0/1/*.log"))
    assert [path.name for path in logs][:3] == ["only.0.log", "only.1.log", "only.2.log"]
    assert logs[1].read_text().splitlines() in (["attempt", "went wrong"], ["went wrong", "attempt"])


def test_the_policy_of_the_hint_ends_the_job(workspace: Workspace) -> None:
    policies = [{"event": "TaskFailed", "action": "TerminateJob"}]
    result = workspace.run(_restarting(policies=policies), flags=["--json", "--network=job"])
    events = [json.loads(line) for line in result.out.splitlines()]
    restarts = [event for event in events if event["type"] == "pod" and event.get("reason") == "Restarted"]
    # The fourth run may end, and announce a restart, before the policy ends it.
    assert [(event["attempt"], event["code"], event["line"]) for event in restarts] == [
        (count, 6, "went wrong") for count in range(1, max(len(restarts), 3) + 1)
    ]
    assert len(restarts) <= 4
    assert "hint" not in result.err
    assert result.code == 6, result.out


def test_the_default_restart_policy_is_explained_once(workspace: Workspace) -> None:
    only = task("only", "true", 2)
    del only["template"]["spec"]["restartPolicy"]
    process = workspace.start(job(only), flags=["--network=job"])
    printed: list[str] = []
    while sum(" restart 1:" in line for line in printed) < 2:
        line = process.stderr.readline()
        assert line, printed
        printed.append(line.rstrip())
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE)
    hints = [line for line in [*printed, *err.splitlines()] if "hint" in line]
    assert len(hints) == 1
    assert "restartPolicy Always, the default" in hints[0]


@pytest.mark.parametrize(
    ("restarts", "timeouts", "code"),
    [
        pytest.param("Never", (150,), 1, id="fails"),
        # The next one if the machine is too busy for a restart within this time.
        pytest.param("OnFailure", (3, 20, 100), 124, id="restarts"),
    ],
)
def test_a_missing_module_names_the_python_and_how_to_choose_another(
    workspace: Workspace, restarts: str, timeouts: Sequence[int], code: int
) -> None:
    only = task("only", "", container=scripted("python3", "-c", "import no_such_torch"))
    only["template"]["spec"]["restartPolicy"] = restarts
    for timeout in timeouts:
        result = workspace.run(job(only, maxRetry=1), flags=[f"--timeout={timeout}s"])
        if code == 1 or " restart 1: " in result.err:
            break
    assert result.code == code, result.err
    python = re.search(r"^  python (.+)$", result.err, re.MULTILINE)
    assert python is not None
    *_, log, last = _check_form(result)
    assert last == f"  next          pumice run job.yaml --python PATH     PATH has no_such_torch; this was {python[1]}"
    assert "ModuleNotFoundError" in Path(log.removeprefix("  log").strip()).read_text()
    if restarts == "OnFailure":
        hint = f"  hint: --python PATH, where PATH has no_such_torch; this is {python[1]}\n"
        assert re.search(rf"only-0 restart 1: .*\n{re.escape(hint)}", result.err)
        assert result.verdict[1].startswith("  restarted     only-0: ")


def test_a_program_that_is_here_and_not_in_the_working_directory_of_the_image(workspace: Workspace) -> None:
    (workspace.directory / "app.py").write_text("print('mine')")
    trial = job(task("only", "", container={**scripted("python3", "app.py"), "workingDir": "/workspace"}), maxRetry=1)
    *_, last = _check_form(workspace.run(trial))
    command, _, why = last.removeprefix("  next").strip().partition("     ")
    assert command == "pumice run job.yaml --mount .:/workspace"
    assert why == "the file is in this directory, not in /workspace"
    assert workspace.run(trial, flags=shlex.split(command)[3:]).out == "only-0  mine\n"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["python3.99", "train.py"], id="the command itself"),
        pytest.param(["sh", "-c", "exec python3.99 train.py"], id="in a shell"),
    ],
)
def test_a_missing_interpreter_names_the_python_and_how_to_choose_another(
    workspace: Workspace, command: list[str]
) -> None:
    only = task("only", "", container={"command": command})
    result = workspace.run(job(only, maxRetry=1))
    assert result.code == 127, result.err
    python = re.search(r"^  python (.+)$", result.err, re.MULTILINE)
    assert python is not None
    next_step = f"pumice run job.yaml --python PATH     PATH has python3.99; this was {python[1]}"
    assert result.verdict[-1] == f"  next          {next_step}"


def test_a_program_that_is_beside_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "my project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "my project" / "app.py").touch()
    workspace = Workspace(tmp_path / "my project", cwd=str(tmp_path / "elsewhere"))
    result = workspace.run(job(task("only", "", container=scripted("python3", "app.py")), maxRetry=1))
    assert result.code == 2, result.err
    assert result.verdict[-1] == (
        "  next          cd '../my project' && pumice run job.yaml     the file is beside the Job file, not here"
    )


def test_a_rank_that_leaves_with_code_0_is_named(workspace: Workspace) -> None:
    leave = "until [ -e up0 ] && [ -e up1 ]; do sleep 0.1; done; echo done; touch gone"
    lost = "touch up$VC_TASK_INDEX; until [ -e gone ]; do sleep 0.1; done; sleep 0.5"
    lost += "; echo 'ConnectionResetError: Connection reset by peer'; exit 3"
    result = workspace.run(job(task("master", leave), task("worker", lost, replicas=2), plugins={"env": []}))
    lines = _check_form(result)
    assert lines[0] == "master-0 ended first, with exit code 0, while 2 others still ran"
    assert re.search(r"then +worker-. [(]exit code 3, \d+[.]\ds later[)], worker-. [(]exit code 3", lines[2])
    assert "pods/master-0/" in lines[3]
    assert result.code == 3
