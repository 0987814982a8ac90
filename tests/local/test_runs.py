"""Runs that outlive the terminal: started in the background, listed, watched, entered, stopped and removed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from pumice.engines.local.service.service_paths import ServicePaths
from tests.fork_server import fork_server
from tests.local.commands import WAITING, Terminal
from tests.local.running import MODULES, extra_object, job, processes, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def test_a_run_outlives_the_command_that_started_it(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING, replicas=2)), flags=("--note", "a remark"))
    assert run == "trial:1"
    terminal.until(lambda: [(each["phase"], each["pods"]["running"]) for each in terminal.items()] == [("Running", 2)])
    (item,) = terminal.items()
    assert {
        "run",
        "name",
        "number",
        "uid",
        "namespace",
        "outcome",
        "phase",
        "pods",
        "attempt",
        "note",
        "created",
    } <= set(item)
    assert (item["run"], item["phase"], item["mode"], item["exitCode"]) == (run, "Running", "detached", None)
    listed = terminal("ps").out.splitlines()
    assert listed[0].split() == ["RUN", "STATUS", "PODS", "TRY", "AGE", "NOTE"]
    assert listed[1].split()[:4] == [run, "Running", "2/2", "1/3"]
    assert terminal("get", run, "--exit-code", code=101).out.startswith("apiVersion: batch.volcano.sh/v1alpha1\n")
    assert terminal("exec", "w-1", "--", "sh", "-c", "echo $VC_TASK_INDEX here; exit 3", code=3).out.endswith("here\n")
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", run).out == "trial:1 Succeeded\n"
    (item,) = terminal.items()
    assert (item["phase"], item["exitCode"], item["pods"]["succeeded"]) == ("Completed", 0, 2)
    assert terminal("ps", "-o", "name").out == "trial:1\n"
    assert terminal("get", "--exit-code", code=0).err == "trial:1\n"
    assert terminal("export", run, "-o", "run.tar.gz").out == "run.tar.gz\n"
    with tarfile.open(terminal.workspace.directory / "run.tar.gz") as archive:
        assert "trial-1/pods/w-0/1/w.0.log" in archive.getnames()
        assert "trial-1/run.json" in archive.getnames()
    assert terminal("export", run, "-o", "run.tar.gz", code=2).err.endswith("run.tar.gz: exists already\n")
    shown = terminal("replay", run).out
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
    assert terminal("stop", "trial").out == "trial:1 Stopped\n"
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, (out, err)
    assert terminal("wait", "trial:1", code=103).out.startswith("trial:1 Stopped")
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
    assert shown.wait(PATIENCE) == 0
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
    assert terminal("wait", run).out == "trial:1 Succeeded\n"
    assert follower.wait(PATIENCE) == 0
    # What happened to the run stands between its lines, which stdout has alone. The follower writes both to one file.
    mark = "interrupted: the process that ran it was killed; its pods start again\n"
    assert printed.read_text() == f"w-0      up\n{mark}w-0      up\nw-0      done\n"
    assert terminal("logs", run).out == "w-0      up\nw-0      up\nw-0      done\n"
    assert terminal("logs", run).err == terminal("logs", "-f", run).err == mark
    assert terminal("logs", run, "--tail", "1").err == ""
    assert f"warning: {mark}" in terminal("replay", run).out
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


def test_a_restart_stands_between_the_lines_and_looks_at_the_code(terminal: Terminal) -> None:
    code = terminal.workspace.directory / "code.txt"
    code.write_text("old\n")
    run = terminal.submit(job(task("w", f"cat code.txt; {WAITING}")))
    terminal.until(lambda: terminal("logs", run).out == "w-0  old\nw-0  up\n")
    code.write_text("new\n")
    terminal("restart", run)
    terminal.until(lambda: terminal("logs", run).out == "w-0  old\nw-0  up\nw-0  new\nw-0  up\n")
    assert terminal("logs", run).err == "restarted by you\n"
    terminal.until(lambda: "code changed since it was submitted: code.txt" in terminal("ps").out)
    terminal("stop", run)


def test_a_suspended_run_goes_on_where_it_was(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", WAITING), task("quick", "echo once >> quick.txt"), minAvailable=1))
    terminal.until(lambda: terminal.items()[0]["pods"]["succeeded"] == 1)
    assert terminal("suspend", run).out == "trial:1 Suspended\n"
    terminal.until(lambda: not processes(f"{terminal.workspace.state}/runs"))
    assert terminal("wait", run, code=103).out.startswith("trial:1 Suspended")
    assert terminal("why", run).out == "trial:1 Suspended: suspended by you\n  to go on: pumice resume trial:1\n"
    assert terminal("attach", run, code=1).err.endswith("  next          pumice resume trial:1\n")
    assert [each["run"] for each in terminal.items("--active")] == [run]
    (terminal.workspace.directory / "go").touch()
    assert terminal("resume", run).out == "trial:1\n"
    assert terminal("wait", run).out == "trial:1 Succeeded\n"
    assert (terminal.workspace.directory / "quick.txt").read_text() == "once\n"
    assert terminal("resume", run, code=1).err.startswith("trial:1 is not suspended: Succeeded")


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
    assert terminal("wait", run).out == "trial:1 Succeeded\n"
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
    assert terminal("suspend", "trial").out == "trial:1 Suspended\n"
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "pumice resume trial:1" in err
    (terminal.workspace.directory / "go").touch()
    # Another run closes what was lost; a suspended run is not.
    assert terminal.workspace.run(job(task("w", "true"))).code == 0
    terminal("resume", "trial:1")
    assert terminal("wait", "trial:1").out == "trial:1 Succeeded\n"


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
    assert terminal("wait", run).out == "trial:1 Succeeded\n"
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
    assert terminal("stop", second).out == "trial:2 Stopped\n"
    assert terminal("wait", second, code=103).out == "trial:2 Stopped: stopped by you\n"
    assert terminal("rm", second, first, code=1).err.startswith("trial:1 is running\n")
    assert terminal.phase(second) == "Terminated", "none is removed if one cannot be"
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", first).out == "trial:1 Succeeded\n"
    assert not (terminal.workspace.directory / "ran.txt").exists()


def test_a_port_that_is_taken_is_published_on_another_which_is_shown(terminal: Terminal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = terminal.workspace.write(job(task("w", WAITING)))
        submitted = terminal("submit", file, "--publish", f"w-0:{port}")
        run = submitted.out.strip()
        assert run == "trial:1"
        # What it says depends on how busy the machine is.
        assert re.search(
            rf"^{run}: (?:w-0:{port} is published on 127|`pumice ps -o wide` shows)", submitted.err, re.MULTILINE
        )
        terminal.until(lambda: terminal.phase(run) == "Running")
        (published,) = terminal.items()[0]["published"]
        assert (published["pod"], published["port"]) == ("w-0", port)
        address = published["address"]
        assert re.fullmatch(r"127\.0\.0\.1:\d+", address)
        assert address != f"127.0.0.1:{port}"
        assert f"  w-0:{port} -> {address}" in terminal("ps", "-o", "wide").out
        assert f"    address: {address}" in terminal("get", run).out
        words = f"w-0:{port} is published on {address}"
        assert f"1 of 1 pods run; {words}" in terminal("why", run).out
        output = terminal.workspace.directory / "attached"
        with output.open("wb") as out:
            shown = fork_server(*MODULES).start(
                ["attach", run], cwd=terminal.workspace.directory, env=terminal.workspace.env, out=out.fileno()
            )
        terminal.until(lambda: words.encode() in output.read_bytes())
        (terminal.workspace.directory / "go").touch()
        assert shown.wait(PATIENCE) == 0
    # A run that has ended publishes nothing.
    assert terminal.items()[0]["published"] == []


def test_a_chosen_port_that_is_taken_is_refused_and_of_a_waiting_run_published_later(terminal: Terminal) -> None:
    file = terminal.workspace.write(job(task("w", WAITING)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    held = terminal("submit", file, "--hold", "--publish", f"6006:{port}").out.strip()
    with socket.create_server(("127.0.0.1", port)) as taken:
        holder = f"port {port} is taken by {Path('/proc/self/comm').read_text().strip()} (pid {os.getpid()})"
        for command in ("run", "submit"):
            refused = terminal(command, file, "--publish", f"w-0:6006:{port}", code=2)
            assert refused.err.startswith(f"--publish: w-0:6006:{port}: {holder}\n")
        terminal("resume", held)
        terminal.until(lambda: terminal.phase(held) == "Running")
        assert f"{holder}; retrying" in terminal("ps").out
        assert f"{holder}; retrying" in terminal("why", held).out
        assert f"w-0:6006 -> 127.0.0.1:{port} (taken)" in terminal("ps", "-o", "wide").out
        taken.close()
    terminal.until(lambda: "retrying" not in terminal("ps").out)
    assert f"w-0:6006 is published on 127.0.0.1:{port}" in terminal("why", held).out
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", held).out == f"{held} Succeeded\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--publish", "80"], "80: the job has 2 pods\n  hint: write TASK-INDEX:PORT\n", id="no pod"),
        pytest.param(
            ["--publish", "w-0:80:3"],
            "w-0:80:3: port 3 needs a right that this user does not have\n  hint: choose 1024 or more\n",
            id="no right",
            marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may open all ports"),
        ),
    ],
)
def test_ports_that_cannot_be_published(terminal: Terminal, words: list[str], said: str) -> None:
    file = terminal.workspace.write(job(task("w", WAITING, replicas=2)))
    for command in ("run", "submit"):
        assert terminal(command, file, *words, code=2).err.startswith(f"--publish: {said}")


def test_submit_says_what_will_show_the_address_of_a_run_that_does_not_start(terminal: Terminal) -> None:
    file = terminal.workspace.write(job(task("w", WAITING)))
    submitted = terminal("submit", file, "--hold", "--publish", "w-0:6006")
    assert submitted.out == "trial:1\n"
    assert "trial:1: `pumice ps -o wide` shows where its ports are published, once it runs\n" in submitted.err


def test_an_attempt_after_a_killed_process_costs_no_retry(terminal: Terminal) -> None:
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    run = terminal.submit(job(task("w", WAITING), policies=policies))
    terminal.until(lambda: terminal.items()[0]["pods"]["running"] == 1)
    first = terminal.owner(run)
    os.kill(first, signal.SIGKILL)
    terminal.until(lambda: terminal.owner(run) != first and terminal.items()[0]["attempt"] == 2)
    assert terminal("ps").out.splitlines()[1].split()[3] == "2/4"


@pytest.mark.soak
def test_a_detached_run_that_hangs_says_so_where_one_looks(terminal: Terminal) -> None:
    run = terminal.submit(job(task("w", "echo up; exec sleep 600", replicas=2)))
    terminal.until(lambda: terminal.items()[0]["hang"] is not None)
    assert re.search(r" no output for \d+s$", terminal("ps").out.splitlines()[1])
    words = r"no pod has printed anything for \d+s; 2 of them run\n  w-0: sleep sleeping.*\n  w-1: sleep sleeping"
    assert re.match(rf"{run} Running: {words}", terminal("why", run).out)
    output = terminal.workspace.directory / "attached"
    with output.open("wb") as out:
        shown = fork_server(*MODULES).start(
            ["attach", run], cwd=terminal.workspace.directory, env=terminal.workspace.env, out=out.fileno()
        )
    terminal.until(lambda: re.search(f"warning: {words}", output.read_text()) is not None)
    terminal("stop", run)
    shown.wait(PATIENCE)
    assert "was doing     w-0, w-1: sleep sleeping" in terminal("why", run).out
    assert terminal.items()[0]["hang"] is None
