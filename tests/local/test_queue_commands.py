"""Options and messages of runs that wait, are silent or were interrupted: flags, config.toml, the columns of `ps`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.client.backend import StopRun
from pumice.client.local.connections import connected
from pumice.client.local.local_backend import LocalBackend
from pumice.engines.local.runs import settle_lost_runs
from pumice.store.files.run_store import RunStore
from pumice.store.run_errors import ConnectionFailed
from tests.fork_server import fork_server
from tests.local.commands import WAITING, Terminal
from tests.local.running import MODULES, extra_object, job, processes, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

# A service that has signed its lock, and does not listen before it is told to.
LISTENS_LATE = """
import os, sys, time
from pumice.engines.local.service import service_process
class Late(service_process.Service):
    async def run(self, ready):
        print("locked", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.02)
        await super().run(ready)
service_process.Service = Late
service_process.main(sys.argv[1], os.open(os.devnull, os.O_WRONLY))
"""
WHOLE = {"resources": {"requests": {"cpu": str(os.cpu_count())}}}


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def restart_machine(terminal: Terminal, run: str) -> None:
    """Kill the service and the run's process, empty the runtime directory, and change the boot id that they noted."""
    terminal("service", "stop")
    pid = terminal.owner(run)
    os.kill(pid, signal.SIGKILL)
    name, _, number = run.partition(":")
    lock = terminal.workspace.state / "runs" / "default" / name / number / "owner.lock"
    terminal.until(lambda: not processes(str(lock.parent)))
    lock.write_text(json.dumps({"pid": pid, "start": 1, "boot": "another-boot"}))
    shutil.rmtree(terminal.workspace.directory / "pumice")


def test_runs_wait_in_order_and_as_long_as_their_options_say(terminal: Terminal) -> None:
    terminal.workspace.configure("[priorities]\nhigh = 7\n")
    busy = terminal.submit(job(task("w", WAITING, container=WHOLE)))
    terminal.until(lambda: terminal.phase(busy) == "Running")
    held = terminal.submit(job(task("w", "true", container=WHOLE), priorityClassName="high"), flags=("--hold",))
    refused = terminal("submit", "job.yaml", "--no-wait", code=2)
    assert (refused.out, refused.err.splitlines()[0].startswith("job.yaml: does not fit now: cpu: ")) == ("", True)
    low = terminal("submit", "job.yaml", "job.yaml", "--priority", "-1").out.split()
    assert low == ["trial:3", "trial:4"]
    short = terminal("submit", "job.yaml", "--max-wait", "1ms").out.strip()
    assert terminal("wait", short, code=100).out.startswith(f"{short} Failed: no room within 0.001s: ")
    terminal("resume", held)
    # By its class, it passes those that arrived before.
    terminal.until(lambda: "first in queue" in terminal("why", held).out)
    rows = {row.split()[0]: row.split() for row in terminal("list", "-o", "wide").out.splitlines()}
    assert rows["RUN"][6:10] == ["PRIORITY", "CPU", "MEM", "GPU"]
    assert [rows[run][6:10] for run in (held, low[0])] == [
        ["7", WHOLE["resources"]["requests"]["cpu"], "-", "-"],
        ["-1", *rows[held][7:10]],
    ]
    assert terminal("suspend", low[1]).out == f"{low[1]} Suspended\n"
    terminal("service", "stop")
    assert terminal("ps").err.startswith("service not running, 2 runs wait; ")
    # A command that changes something starts it again, for the run that waits.
    terminal("stop", *low)
    terminal.until(lambda: terminal("ps").err == "")
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", busy, held).out == f"{busy} Succeeded\n{held} Succeeded\n"
    assert terminal("delete", *low).out.split() == low


def test_attach_says_why_a_run_waits_and_shows_it_when_it_runs(terminal: Terminal) -> None:
    busy = terminal.submit(job(task("w", WAITING, container=WHOLE)))
    terminal.until(lambda: terminal.phase(busy) == "Running")
    waiting = terminal.submit(job(task("w", "echo here; exit 3", container=WHOLE)))
    output = terminal.workspace.directory / "attached"
    with output.open("wb") as out:
        shown = fork_server(*MODULES).start(
            ["attach", waiting], cwd=terminal.workspace.directory, env=terminal.workspace.env, out=out.fileno()
        )
    terminal.until(lambda: f"{waiting} Waiting: cpu: " in output.read_text())
    (terminal.workspace.directory / "go").touch()
    assert shown.wait(PATIENCE) == 3
    text = output.read_text()
    assert text.count(f"run {waiting} ") == 1
    assert "w-0 failed first: exit code 3" in text
    # One that has ended is shown from its record; one that never began says why it ended.
    assert "w-0 failed first: exit code 3" in terminal("attach", waiting, code=3).err
    # The time in the queue is no part of an attempt.
    (attempt,) = json.loads(terminal("history", waiting, "-o", "json").out)["items"]
    assert attempt["begin"] > next(each["finished"] for each in terminal.items() if each["run"] == busy)
    held = terminal.submit(job(task("w", "true")), flags=("--hold",))
    terminal("stop", held)
    assert terminal("attach", held, code=143).err == f"{held} Stopped: stopped by you\n"


def test_the_service_may_be_stopped_by_many_at_once(terminal: Terminal) -> None:
    terminal.submit(job(task("w", "true")), flags=("--hold",))
    backend = LocalBackend(terminal.workspace.env)

    async def stop() -> list[bool]:
        return await asyncio.gather(*(backend.stop_service() for _ in range(20)))

    for _ in range(3):
        asyncio.run(backend.wake())
        assert asyncio.run(stop()) == [True] * 20
    assert asyncio.run(stop()) == [False] * 20


def test_namespaces(terminal: Terminal) -> None:
    document = job(task("w", "true"))
    runs = {}
    for space in ("blue", "red"):
        run = terminal.submit({**document, "metadata": {"name": "trial", "namespace": space}})
        assert terminal("wait", run, "-n", space).out == "trial:1 Succeeded\n"
        runs[space] = terminal.items("-n", space)[0]["uid"]
    both = terminal("why", "trial", code=2).err
    assert "trial:1 in namespace blue, trial:1 in namespace red\n  hint: choose one with -n NAMESPACE" in both
    assert sorted(each["namespace"] for each in terminal.items("-A")) == ["blue", "red"]
    assert terminal("ps", "-A", "-n", "red", code=2).err.startswith("-A: cannot be combined with -n")
    assert terminal("clean", "-n", "../blue", "--claims", "-y", code=2).err.startswith("-n: ../blue: cannot be a")
    # A uid names one run.
    assert terminal("history", runs["red"][:8]).out.splitlines()[0].split()[0] == "ATTEMPT"
    assert terminal("clean", "-n", "blue", "--older-than", "0d", "--dry-run").out == "trial:1\n"
    assert terminal("clean", "-n", "blue", "--older-than", "0d", "-y").out == "trial:1\n"
    assert [each["namespace"] for each in terminal.items("-a")] == ["red"]
    # Its phase is not the one that was waited for.
    terminal("wait", "trial", "--for", "Failed", code=100)
    terminal("wait", "trial", "--for", "completed")
    terminal("wait", "trial", "--for", "running")


def test_a_run_that_waits_is_scaled_until_it_fits(terminal: Terminal) -> None:
    half = {"resources": {"requests": {"cpu": f"{(os.cpu_count() or 1) * 500}m"}}}
    busy = terminal.submit(job(task("w", WAITING, container=half)))
    terminal.until(lambda: terminal.phase(busy) == "Running")
    large = terminal.submit(job(task("w", "true", replicas=2, container=half)))
    terminal.until(lambda: "first in queue" in terminal("ps").out)
    why = terminal("why", large).out.splitlines()
    command = f"pumice scale {large} w=1"
    assert why[1] == f"  1 of 2 ws fits now: {command}"
    assert terminal("why", "w-1").out.startswith(f"{large}/w-1 Starting: ")
    terminal("scale", large, "nothing=1", code=2)
    assert terminal("scale", busy, "w=1").out == f"{busy}: w has 1 already\n"
    assert terminal(*command.split()[1:]).out == f"{large}: w 2 -> 1\n"
    assert terminal("wait", large).out == f"{large} Succeeded\n"
    assert next(each["pods"]["succeeded"] for each in terminal.items() if each["run"] == large) == 1


def test_a_process_that_hangs_or_lost_its_socket(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    run = terminal.submit(job(task("w", "trap 'echo asked' TERM; " + WAITING)))
    terminal.until(lambda: terminal("logs", run).out != "")
    shutil.rmtree(terminal.workspace.directory / "pumice")
    # It is told that its socket is gone, and makes it again.
    score = terminal("exec", f"{run}/w-0", "--", "cat", "/proc/self/oom_score_adj").out
    # When memory is exhausted, the kernel ends a pod, not the process of the run.
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(score) == min(1000, own + 500)
    os.kill(terminal.owner(run), signal.SIGSTOP)
    assert terminal.items()[0]["message"] == "not responding"
    os.kill(terminal.owner(run), signal.SIGCONT)
    # The pod ignores SIGTERM, and its own grace period is 30 seconds. Five are enough for it to say that it was asked.
    assert terminal("stop", run, "--grace", "5s").out == f"{run} Stopped\n"
    assert "asked" in terminal("logs", run).out
    hung = terminal.submit(job(task("w", WAITING)))
    terminal.until(lambda: terminal.phase(hung) == "Running")
    os.kill(terminal.owner(hung), signal.SIGSTOP)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(terminal.workspace.directory))
    client = LocalBackend(terminal.workspace.env)

    async def connect() -> None:
        async with connected(client.find_stored(hung), patience=0.1):
            pass

    # A command waits longer: a process that only waits for the disk or a processor does not hang.
    with pytest.raises(ConnectionFailed, match=rf"{hung} does not respond\n  hint: run.stop\(force=True\) ends it"):
        asyncio.run(connect())
    assert terminal("stop", hung, "--force", code=None).out.startswith(hung)


def test_a_foreground_run_that_hangs_and_is_stopped_by_force_was_stopped(terminal: Terminal) -> None:
    """Its client notices the end of its process, too, and may be the first to close the record."""
    workspace = terminal.workspace
    words = ["run", workspace.write(job(task("w", WAITING)))]
    with (workspace.directory / "printed").open("wb") as out:
        client = fork_server(*MODULES).start(words, cwd=workspace.directory, env=workspace.env, out=out.fileno())
    terminal.until(lambda: bool(terminal.items()) and terminal.phase("trial:1") == "Running")
    owner = terminal.owner("trial:1")
    os.kill(owner, signal.SIGSTOP)
    kill, killed = os.kill, []

    def kill_and_settle(pid: int, number: int) -> None:
        kill(pid, number)
        if (pid, number) == (owner, signal.SIGKILL):
            killed.append(pid)
            terminal.until(lambda: not processes(str(workspace.state / "runs")))
            settle_lost_runs(RunStore(workspace.state))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "kill", kill_and_settle)
        backend = LocalBackend(workspace.env)
        asyncio.run(backend.change(asyncio.run(backend.find("trial:1")), StopRun(force=True)))
    assert killed == [owner]
    assert client.wait(PATIENCE) != 0
    assert (workspace.directory / "printed").read_text().endswith("trial:1 has ended: stopped by you\n")
    assert terminal("wait", "trial:1", code=103).out == "trial:1 Stopped: stopped by you\n"


def test_a_stop_by_force_blames_no_pod(terminal: Terminal) -> None:
    """The pods end with the sandbox: they did not fail."""
    run = terminal.submit(job(task("w", WAITING, replicas=2)))
    terminal.until(lambda: terminal.phase(run) == "Running")
    terminal("stop", run, "--force")
    assert terminal("wait", run, code=103).out == f"{run} Stopped: stopped by you\n"
    assert terminal("why", run).out == f"{run} Stopped: stopped by you\n"
    (attempt,) = json.loads(terminal("history", run, "-o", "json").out)["items"]
    assert attempt["firstFailure"] == ""


def test_secrets_are_read_again_from_their_file_or_asked_for(terminal: Terminal) -> None:
    secret = extra_object("Secret", "hush", stringData={"WORD": "open-sesame"})
    read = {"envFrom": [{"secretRef": {"name": "hush"}}]}
    run = terminal.submit(job(task("w", f"{WAITING}; echo $WORD", container=read)), secret)
    terminal.until(lambda: terminal.phase(run) == "Running")
    restart_machine(terminal, run)
    (terminal.workspace.directory / "go").touch()
    waited = terminal("wait", run)
    assert waited.out == f"{run} Succeeded\n"
    assert terminal("logs", run, "--tail", "1").out == "w-0  open-sesame\n"
    (terminal.workspace.directory / "go").unlink()
    terminal.workspace.environ["MINE"] = "caller"
    run = terminal.submit(
        job(task("w", f"{WAITING}; echo $MINE $WORD", container=read)), secret, flags=("--env", "MINE")
    )
    terminal.until(lambda: terminal.phase(run) == "Running")
    restart_machine(terminal, run)
    # The file has changed since, so it is not the source any more.
    terminal.workspace.write(secret)
    terminal("resume", run, code=1)
    command = f"pumice resume {run} --env MINE --with FILE"
    terminal.until(lambda: command in terminal("ps").out)
    why = json.loads(terminal("why", run, "-o", "json").out)
    assert (why["code"], [each["command"] for each in why["hints"]]) == ("SecretsMissing", [command])
    (terminal.workspace.directory / "go").touch()
    assert terminal("resume", run, "--env", "MINE", "--with", "job.yaml").out == f"{run}\n"
    assert terminal("wait", run).out == f"{run} Succeeded\n"
    assert terminal("logs", run, "--tail", "1").out == "w-0  caller open-sesame\n"


def test_after_reboot_suspend(terminal: Terminal) -> None:
    terminal.workspace.configure('[runs]\nafter_reboot = "suspend"\n')
    run = terminal.submit(job(task("w", WAITING), plugins={"ssh": []}))
    terminal.until(lambda: terminal.phase(run) == "Running")
    restart_machine(terminal, run)
    waited = terminal("wait", run, code=103)
    assert waited.out == f"{run} Suspended\n"
    assert waited.err == f"{run} was interrupted: the machine was restarted; it is suspended: pumice resume {run}\n"
    assert json.loads(terminal("why", run, "-o", "json").out)["code"] == "Suspended"
    (terminal.workspace.directory / "go").touch()
    terminal("resume", run)
    assert terminal("wait", run).out == f"{run} Succeeded\n"
    assert "new ssh keys are generated" in terminal("history", run, "--events").out


def test_claims_stay_until_the_user_removes_them(terminal: Terminal) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]
    writer = task("w", "echo result > /data/file", container={"volumeMounts": mounts}, pod={"volumes": volumes})
    claim = extra_object(
        "PersistentVolumeClaim",
        "kept",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    )
    runs = [terminal.submit(job(writer), claim), terminal.submit(job(writer), claim)]
    terminal("wait", *runs)
    data = terminal.workspace.state / "claims/default/kept/file"
    assert terminal("rm", runs[0]).out == f"{runs[0]}\n"
    assert data.read_text() == "result\n"
    listed = terminal("clean", "--claims", "--older-than", "0d", "--dry-run").out.splitlines()
    assert [line.split(" (")[0] for line in listed] == [runs[1], "claim default/kept"]
    assert (
        terminal("clean", "--claims", code=2).err
        == "1 item would be removed\n  hint: -y removes them, --dry-run lists them\n"
    )
    assert data.exists()
    assert [line.split(" (")[0] for line in terminal("rm", runs[1], "--claims").out.splitlines()] == [
        runs[1],
        "claim default/kept",
    ]
    assert not data.exists()
    assert terminal("clean", "--claims", "--images", "-y").err == "nothing to remove\n"


def test_a_service_that_is_about_to_listen_is_shut_down(terminal: Terminal) -> None:
    backend, directory = LocalBackend(terminal.workspace.env), terminal.workspace.directory
    command = [sys.executable, "-c", LISTENS_LATE, str(terminal.workspace.state)]
    with subprocess.Popen(command, cwd=directory, env=terminal.workspace.env, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == b"locked\n"

        async def story() -> None:
            ending = asyncio.create_task(backend.shut_down())
            await asyncio.sleep(1)  # in which it asks the service for the first time
            assert not ending.done()
            (directory / "go").touch()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(ending, asyncio.to_thread(service.wait))

        asyncio.run(story())
