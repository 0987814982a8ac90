"""Foreground runs: a process of their own, which ends with the client unless the client detaches the run."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pumice.admission.admit import admit
from pumice.client.backend import Exec
from pumice.client.local.local_backend import LocalBackend
from pumice.model.snapshot import PodPhase
from pumice.runtime.offline_context import offline_context
from pumice.store.events import LogOutput, PodChanged
from pumice.store.options import RunOptions
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_request import RunRequest
from pumice.store.settings import Settings
from tests.conftest import SOAK
from tests.local.commands import Terminal
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal

WAITING = "echo up $MY_TOKEN; while [ ! -e go ]; do sleep 0.2; done; echo done"
LINES = 50_000 if SOAK else 5_000


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def test_ctrl_backslash_detaches_a_run_which_survives_its_process(terminal: Terminal) -> None:
    workspace = terminal.workspace
    workspace.environ |= {"TERM": "xterm", "MY_TOKEN": "s3cret"}
    document = job(task("w", WAITING))
    shown = OnTerminal(workspace.argv(document, flags=["--env", "MY_TOKEN"]), workspace.directory, workspace.env)
    shown.read_until("up s3cret")
    shown.read_until("Running 1/1")
    shown.type(b"\x1c")
    assert shown.read_to_end() == 0
    assert shown.screen.lines[-3:] == [
        "trial:1 keeps running; reattach with pumice attach trial:1, end it with pumice stop trial:1",
        "trial:1",
        "",
    ]
    (item,) = terminal.items()
    assert (item["phase"], item["mode"]) == ("Running", "detached")
    assert terminal("detach", "trial:1", code=1).err == "the run is detached already\n"
    # As with a submitted run: the service starts it again, with the secrets that it had.
    os.kill(terminal.owner("trial:1"), signal.SIGKILL)
    terminal.until(lambda: terminal("logs", "trial:1").out.count("up s3cret") == 2)
    assert "s3cret" not in (workspace.state / "runs/default/trial/1/run.json").read_text()
    (workspace.directory / "go").touch()
    assert terminal("wait", "trial:1").out == "trial:1 Succeeded\n"
    terminal.until(lambda: not list((workspace.directory / "pumice" / "secrets").iterdir()))


def test_detach_from_another_terminal(terminal: Terminal) -> None:
    process = terminal.workspace.start(job(task("w", WAITING)))
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    assert terminal("detach", "trial").out == "trial:1\n"
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.splitlines()[-1]) == (0, "trial:1"), err
    assert err.endswith("trial:1 keeps running; reattach with pumice attach trial:1, end it with pumice stop trial:1\n")
    (terminal.workspace.directory / "go").touch()
    assert terminal("wait", "trial").out == "trial:1 Succeeded\n"
    assert terminal("logs", "trial").out == "w-0  up\nw-0  done\n"


def test_a_run_ends_with_its_client(terminal: Terminal) -> None:
    process = terminal.workspace.start(job(task("w", "trap '' TERM; echo up; sleep 1000 & wait; sleep 1000")))
    assert process.stdout.readline() == "w-0  up\n"
    process.kill()
    process.communicate()
    terminal.until(lambda: [each["phase"] for each in terminal.items("-a")] == ["Terminated"])
    (item,) = terminal.items("-a")
    assert (item["reason"], item["exitCode"]) == ("ClientLost", 1)
    assert item["message"] == "the client of the run has gone, so the run was ended"
    status = json.loads(terminal("get", "trial", "-o", "json").out)["status"]
    assert (status["state"]["phase"], "running" in status) == ("Terminated", False)


def test_a_second_viewer_leaves_a_run_that_goes_on(terminal: Terminal) -> None:
    process = terminal.workspace.start(job(task("w", WAITING)))
    terminal.until(lambda: [each["phase"] for each in terminal.items()] == ["Running"])
    argv = [word if word != "run" else "attach" for word in terminal.workspace.argv(job(task("w", WAITING)))]
    viewer = OnTerminal(argv[:-1], terminal.workspace.directory, terminal.workspace.env)
    viewer.read_until("run trial:1")
    # The state of the run as it is, not as if it began now.
    viewer.read_until("Running 1/1")
    viewer.type(b"\x03")
    assert viewer.read_to_end() == 0
    (terminal.workspace.directory / "go").touch()
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "w-0  up\nw-0  done\n"), err


def test_a_slow_reader_gets_every_line_in_order(terminal: Terminal) -> None:
    script = f"seq -f '%.0f {'x' * 100}' {LINES}; echo done"
    process = terminal.workspace.start(job(task("w", script, replicas=8)), flags=["--no-prefix", "--json"])
    seen: dict[str, list[int]] = {f"w-{index}": [] for index in range(8)}
    first = process.stdout.readline()
    assert json.loads(first)["type"] == "plan"
    # Until the pods have printed what fits into pipes and buffers; nothing is read, and the run is still there.
    time.sleep(1)
    for number, text in enumerate(process.stdout):
        event = json.loads(text)
        if event["type"] == "log" and event["line"] != "done":
            seen[event["pod"]].append(int(event["line"].split()[0]))
        if number % 10_000 == 0:
            time.sleep(0.05)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert all(numbers == list(range(1, LINES + 1)) for numbers in seen.values())


def _request(directory: Path, script: str) -> RunRequest:
    settings = Settings(workdir=directory, state=directory / "state" / "pumice")
    return RunRequest(admit(job(task("w", script)), offline_context()), RunOptions(settings))


def test_a_program_with_threads_holds_a_run(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in terminal.workspace.env.items():
        monkeypatch.setenv(name, value)
    seen: list[Any] = []

    async def story() -> None:
        backend = LocalBackend()
        lease = backend.start(_request(terminal.workspace.directory, "echo up; sleep 1000"))
        async for event in lease.events():
            seen.append(event)
            if isinstance(event, PodChanged) and event.pod.phase is PodPhase.RUNNING:
                assert (await backend.exec(lease.ref, Exec("w-0", ["echo", "here"]))).stdout == b"here\n"
                lease.stop(Stop())
        seen.append(lease)

    thread = threading.Thread(target=asyncio.run, args=(story(),))
    thread.start()
    thread.join(100)
    lease = seen.pop()
    (outcome,) = [event for event in seen if isinstance(event, RunEnded)]
    assert (str(lease.ref), outcome.exit_code, outcome.reason) == ("trial:1", 143, "Stopped")
    assert [line.text for event in seen if isinstance(event, LogOutput) for line in event.lines] == ["up"]
