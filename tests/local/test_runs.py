"""Runs that outlive the terminal: started in the background, listed, watched, entered, stopped and removed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from pumice.engines.local.service.service_paths import ServicePaths
from tests.fork_server import fork_server
from tests.local.commands import WAITING, Terminal
from tests.local.running import MODULES, extra_object, job, processes, task
from tests.local.sandbox.boxes import need_namespaces


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def test_a_run_outlives_the_command_that_started_it(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING, replicas=2)), flags=("--note", "a remark"))
    assert run == "trial:1"
    terminal.until(lambda: [(each["phase"], each["pods"]["running"]) for each in terminal.items()] == [("Running", 2)])
    (item,) = terminal.items()
    assert {"run", "name", "number", "uid", "namespace", "phase", "pods", "attempt", "note", "created"} <= set(item)
    assert (item["run"], item["phase"], item["mode"], item["exitCode"]) == (run, "Running", "detached", None)
    listed = terminal("ps").out.splitlines()
    assert listed[0].split() == ["RUN", "PHASE", "PODS", "TRY", "AGE", "NOTE"]
    assert listed[1].split()[:4] == [run, "Running", "2/2", "1/3"]
    assert terminal("get", run, "--exit-code", code=101).out.startswith("apiVersion: batch.volcano.sh/v1alpha1\n")
    assert terminal("exec", "w-1", "--", "sh", "-c", "echo $VC_TASK_INDEX here; exit 3", code=3).out.endswith("here\n")
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", run).out == "trial:1 Completed\n"
    (item,) = terminal.items()
    assert (item["phase"], item["exitCode"], item["pods"]["succeeded"]) == ("Completed", 0, 2)
    assert terminal("ps", "-o", "name").out == "trial:1\n"
    assert terminal("get", "--exit-code", code=0).err == "trial:1\n"
    assert terminal("export", run, "-o", "run.tar.gz").out == "run.tar.gz\n"
    with tarfile.open(terminal.workspace.directory / "run.tar.gz") as archive:
        assert "trial-1/pods/w-0/1/w.0.log" in archive.getnames()
        assert "trial-1/run.json" in archive.getnames()
    assert terminal("export", run, "-o", "run.tar.gz", code=2).err.endswith("run.tar.gz: exists already\n")
    shown = terminal("replay", run).err
    assert "run trial:1 " in shown
    assert "Completed" in shown
    assert terminal("rm", run).out == "trial:1\n"
    assert terminal.items("-a") == []
    assert terminal("get", run, code=2).err == "trial:1: no such run\n  hint: `pumice ps -a` lists all runs\n"
    assert terminal("wait", run, code=102).out == ""


def test_a_foreground_run_is_listed_and_stopped_from_another_terminal(terminal: Terminal) -> None:
    process = terminal.workspace.start(job(task("w", WAITING)))
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    assert terminal.items()[0]["mode"] == "foreground"
    assert terminal("rm", "trial", code=1).err.startswith("trial:1 is running\n  hint: pumice stop trial:1")
    assert terminal("stop", "trial").out == "trial:1 Terminated\n"
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, (out, err)
    assert terminal("wait", "trial:1", code=103).out.startswith("trial:1 Terminated")
    terminal("get", "trial:1", "--exit-code", code=103)


def test_a_failed_run_says_why(terminal: Terminal) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    run = terminal.submit(job(task("w", "echo bad news; exit 4"), policies=policies, maxRetry=2))
    assert terminal("wait", run, code=100).out.startswith("trial:1 Failed: w-0 failed")
    assert "bad news" in terminal("why", run).out
    why = json.loads(terminal("why", run, "-o", "json").out)
    assert (why["run"], why["code"], why["phase"]) == (run, "Failed", "Failed")
    attempts = json.loads(terminal("history", run, "-o", "json").out)["items"]
    assert [(each["number"], each["firstFailure"].startswith("w-0: exit code 4")) for each in attempts] == [
        (1, True),
        (2, True),
    ]
    assert "PodFailed: RestartJob" in terminal("history", run).out
    assert [line.split()[0] for line in terminal("history", "trial").out.splitlines()] == ["RUN", run]


def test_attach_shows_a_run_until_it_ends(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING)))
    terminal.until(lambda: terminal.phase(run) == "Running")
    attached = fork_server(*MODULES)
    output = terminal.workspace.directory / "attached"
    with output.open("wb") as out:
        shown = attached.start(
            ["attach", run], cwd=terminal.workspace.directory, env=terminal.workspace.env, out=out.fileno()
        )
    terminal.until(lambda: b"run trial:1" in output.read_bytes())
    (terminal.workspace.directory / "go").touch()
    assert shown.wait(60) == 0
    assert "w-0  done" in output.read_text()
    assert "Completed" in output.read_text()


def test_a_run_goes_on_when_its_process_was_killed(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING), task("quick", "echo once >> quick.txt"), minAvailable=1))
    terminal.until(lambda: terminal.items()[0]["pods"]["succeeded"] == 1)
    printed = terminal.workspace.directory / "printed"
    with printed.open("wb") as out:
        words = ["logs", "-f", run]
        follower = fork_server(*MODULES).start(
            words, cwd=terminal.workspace.directory, env=terminal.workspace.env, out=out.fileno()
        )
    terminal.until(lambda: printed.read_bytes() == b"w-0      up\n")
    first = terminal.owner(run)
    os.kill(first, signal.SIGKILL)
    terminal.until(lambda: terminal.owner(run) != first and terminal.items()[0]["pods"]["running"] == 1)
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", run).out == "trial:1 Completed\n"
    assert follower.wait(60) == 0
    assert printed.read_text() == terminal("logs", run).out == "w-0      up\nw-0      up\nw-0      done\n"
    # What has succeeded is not repeated.
    assert (terminal.workspace.directory / "quick.txt").read_text() == "once\n"
    assert "SupervisorLost" in terminal("history", run, "--events", "-o", "json").out


def test_the_next_command_says_once_what_the_service_did(terminal: Terminal) -> None:
    paths = ServicePaths(terminal.workspace.state)
    paths.host.mkdir(parents=True)
    line = "job:1 was interrupted: the machine was restarted; it is queued again"
    paths.add_notice(line)
    assert terminal("ps").err.startswith(f"{line}\n")
    assert line not in terminal("ps").err


def test_a_suspended_run_goes_on_where_it_was(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING), task("quick", "echo once >> quick.txt"), minAvailable=1))
    terminal.until(lambda: terminal.items()[0]["pods"]["succeeded"] == 1)
    assert terminal("suspend", run).out == "trial:1 Aborted\n"
    terminal.until(lambda: not processes(f"{terminal.workspace.state}/runs"))
    assert terminal("wait", run, code=103).out.startswith("trial:1 Aborted")
    assert terminal("why", run).out == "trial:1 Suspended: it was suspended\n  to go on: pumice resume trial:1\n"
    assert terminal("attach", run, code=1).err.endswith("  next          pumice resume trial:1\n")
    assert [each["run"] for each in terminal.items("--active")] == [run]
    (terminal.workspace.directory / "go").touch()
    assert terminal("resume", run).out == "trial:1\n"
    assert terminal("wait", run).out == "trial:1 Completed\n"
    assert (terminal.workspace.directory / "quick.txt").read_text() == "once\n"
    assert terminal("resume", run, code=1).err.startswith("trial:1 is not suspended: Completed")


def test_bad_input_starts_nothing(terminal: Terminal) -> None:
    (terminal.workspace.directory / "bad.yaml").write_text("kind: Job\n")
    assert terminal("submit", "bad.yaml", code=2).out == ""
    # Neither does a good file beside it.
    good = terminal.workspace.write(job(task("w", "true")), name="good.yaml")
    assert terminal("submit", good, "bad.yaml", code=2).out == ""
    assert terminal("submit", good, good, "nowhere.yaml", code=2).out == ""
    missing = job(task("w", "true", container={"envFrom": [{"secretRef": {"name": "hush"}}]}))
    result = terminal("submit", terminal.workspace.write(missing), code=2)
    assert (result.out, "hush" in result.err) == ("", True)
    assert terminal.items("-a") == []
    for words in ("stop", "stop nothing", "exec w-0 -- true", "scale x w=1", "attach", "why", "ps nothing"):
        assert "Traceback" not in terminal(*words.split(), code=2).err


def test_secrets_are_not_stored_nor_in_arguments(terminal: Terminal) -> None:
    secret = extra_object("Secret", "hush", stringData={"WORD": "open-sesame"})
    digest = hashlib.sha256(b"open-sesame swordfish caller\n").hexdigest()
    script = f'test "$(echo $WORD $API_TOKEN $MINE | sha256sum)" = "{digest}  -" && {{ {WAITING}; }}'
    only = task("w", script, container={"envFrom": [{"secretRef": {"name": "hush"}}]})
    terminal.workspace.environ["MINE"] = "caller"
    run = terminal.submit(job(only), secret, flags=("--env", "API_TOKEN=swordfish", "--env", "MINE"))
    terminal.until(lambda: terminal.phase(run) == "Running")
    arguments = Path(f"/proc/{terminal.owner(run)}/cmdline").read_bytes()
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", run).out == "trial:1 Completed\n"
    for word in (b"open-sesame", b"swordfish", b"caller"):
        assert word not in arguments
        for path in (terminal.workspace.state / "runs").rglob("*"):
            assert not path.is_file() or word not in path.read_bytes(), path
    record = json.loads((terminal.workspace.state / "runs/default/trial/1/run.json").read_text())
    assert record["secrets"] == ["API_TOKEN", "MINE", "Secret hush"]


def test_another_user_gets_no_answer(terminal: Terminal) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    run = terminal.submit(job(task("w", WAITING)))
    terminal.until(lambda: terminal.phase(run) == "Running")
    directory = terminal.workspace.directory / "pumice"
    terminal.until(lambda: any(directory.glob("*.sock")))
    (path,) = directory.glob("*.sock")
    assert directory.stat().st_mode & 0o777 == 0o700
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        's.sendall(b\'{"op":"hello","protocol":[1,1]}\\n\'); print(len(s.recv(100)))'
    )
    # The directories are opened to all users, so that only the check of the peer is left.
    opened = [directory, *directory.parents[:3]]
    modes = [each.stat().st_mode for each in opened]
    for each, mode in zip(opened, modes, strict=True):
        each.chmod(mode | 0o005)
    path.chmod(0o666)
    # The path of a socket may have 107 bytes only.
    argv = ["/usr/bin/python3", "-c", f"import os; os.chdir({str(directory)!r}); {script}", path.name]
    theirs = subprocess.run(argv, user=65534, group=65534, extra_groups=(), capture_output=True, text=True, check=False)
    own = subprocess.run(argv, capture_output=True, text=True, check=True)
    for each, mode in zip(opened, modes, strict=True):
        each.chmod(mode)
    assert theirs.stdout.strip() in ("", "0"), theirs
    assert int(own.stdout) > 0


def test_a_foreground_run_that_is_suspended_goes_on_in_the_background(terminal: Terminal) -> None:
    process = terminal.workspace.start(job(task("w", WAITING)))
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    assert terminal("suspend", "trial").out == "trial:1 Aborted\n"
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "pumice resume trial:1" in err
    (terminal.workspace.directory / "go").touch()
    # Another run closes what was lost; a suspended run is not.
    assert terminal.workspace.run(job(task("w", "true"))).code == 0
    terminal("resume", "trial:1")
    assert terminal("wait", "trial:1").out == "trial:1 Completed\n"


def test_a_run_whose_process_was_killed_after_its_end_is_not_repeated(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", "echo once >> ran.txt")))
    terminal("wait", run)
    directory = terminal.workspace.state / "runs/default/trial/1"
    # As if the process had been killed between the two writes.
    status = json.loads((directory / "status.json").read_text())
    before = {name: value for name, value in status.items() if name not in ("finished", "exitCode", "verdict")}
    (directory / "status.json").write_text(json.dumps({**before, "phase": "Running"}))
    (terminal.workspace.state / "active" / json.loads((directory / "run.json").read_text())["uid"]).symlink_to(
        directory
    )
    assert terminal("wait", run).out == "trial:1 Completed\n"
    assert (terminal.workspace.directory / "ran.txt").read_text() == "once\n"


def test_a_run_that_waits_is_taken_out_of_the_queue(terminal: Terminal) -> None:
    requests = {"resources": {"requests": {"cpu": str(os.cpu_count())}}}
    first = terminal.submit(job(task("w", WAITING, container=requests)))
    terminal.until(lambda: terminal.phase(first) == "Running")
    second = terminal.submit(job(task("w", "echo never >> ran.txt", container=requests)))
    terminal.until(lambda: "first in queue" in terminal("ps").out)
    why = json.loads(terminal("why", second, "-o", "json").out)
    assert (why["code"], why["position"], why["short"][0]["heldBy"][0]["run"]) == ("Resources", 1, first)
    assert terminal("rm", second, code=1).err.startswith("trial:2 has not finished\n")
    assert terminal("stop", second).out == "trial:2 Terminated\n"
    assert terminal("wait", second, code=103).out == "trial:2 Terminated: trial:2: it was stopped\n"
    assert terminal("rm", second, first, code=1).err.startswith("trial:1 is running\n")
    assert terminal.phase(second) == "Terminated", "none is removed if one cannot be"
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", first).out == "trial:1 Completed\n"
    assert not (terminal.workspace.directory / "ran.txt").exists()
