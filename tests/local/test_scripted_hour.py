"""An hour of a user: three jobs, a closed terminal, a killed service, a killed supervisor, a restart of the machine.

Nothing is lost, nothing runs twice, and each command says in one line what happened. The restart is simulated: all
processes are killed, and the lock of the run has a boot id that is not this machine's.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pumice.engines.local.service.service_paths import ServicePaths
from pumice.store.files.owner_lock import FILE, Owner, start_time
from tests.local.commands import Terminal, open_terminal
from tests.local.running import Manifest, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.unit.cli.screens import OnTerminal

WORKER = "echo step; echo start >> starts.txt; while [ ! -e go ]; do sleep 0.1; done; echo done"
# The second job needs the whole machine, and has to wait.
QUARTER = {"resources": {"requests": {"cpu": "250m"}}}
WHOLE = {"resources": {"requests": {"cpu": str(os.cpu_count() or 1)}}}
ENTRY = "import sys; from pumice.cli.program import main; sys.exit(main())"
KILLED = "train:1 was interrupted: the process that ran it was killed; it is queued again\n"
RESTARTED = "train:1 was interrupted: the machine was restarted; it is queued again\n"
SILENT = "service not running, 2 runs wait; the next command that changes a run starts it\n"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    need_namespaces()
    with open_terminal(tmp_path) as found:
        found.workspace.configure("")
        yield found


def write(terminal: Terminal, name: str, *tasks: Manifest) -> str:
    return terminal.workspace.write({**job(*tasks), "metadata": {"name": name}}, name=f"{name}.yaml")


def submit_and_close_the_terminal(terminal: Terminal, *files: str) -> str:
    """Type the command into a shell, and close its window."""
    workspace = terminal.workspace
    command = shlex.join([sys.executable, "-c", ENTRY, "submit", *files])
    shell = OnTerminal(["sh", "-c", f"{command}; echo all sent; cat"], workspace.directory, workspace.env)
    shell.read_until("all sent")
    assert shell.hang_up() == -signal.SIGHUP
    return shell.screen.text


def kill(terminal: Terminal, *pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    terminal.until(lambda: not any(map(start_time, pids)))


def listed(terminal: Terminal) -> dict[str, list[str]]:
    """Return what `ps` shows of each run, without its age."""
    rows = [line.split(maxsplit=5) for line in terminal("ps").out.splitlines()[1:]]
    return {row[0]: [row[1], row[2], *row[5:]] for row in rows}


def test_an_hour_of_a_user(terminal: Terminal) -> None:
    workspace, paths = terminal.workspace, ServicePaths(terminal.workspace.state)
    data = task("data", "echo prepared; echo once >> data.txt")
    files = [
        write(terminal, "train", data, task("worker", WORKER, 2, container=QUARTER)),
        write(terminal, "sweep", task("trial", "echo once >> sweep.txt", container=WHOLE)),
        write(terminal, "broken", task("t", "echo cannot read data.csv >&2; exit 4")),
    ]
    assert submit_and_close_the_terminal(terminal, *files).split()[:3] == ["train:1", "sweep:1", "broken:1"]

    # Come back.
    assert terminal("wait", "broken", code=100).out.startswith("broken:1 Failed: t-0 failed first: exit code 4 after ")
    terminal.until(lambda: listed(terminal)["train:1"] == ["Running", "2/3"])
    waits = listed(terminal)["sweep:1"]
    assert waits[:2] == ["Waiting", "0/1"]
    assert waits[2].endswith("train:1 holds 0.5; first in queue")
    assert terminal("why", "sweep").out.splitlines()[0] == f"sweep:1 waits: {waits[2]}"
    assert "cannot read data.csv" in terminal("why", "broken").out
    assert sorted(terminal("logs", "train").out.split("\n")[:-1]) == [
        "data-0    prepared",
        "worker-0  step",
        "worker-1  step",
    ]
    assert terminal("exec", "train/worker-1", "--", "sh", "-c", "echo here; exit 3", code=3).out == "here\n"

    # The service is killed: the run goes on, and `ps` says who waits for what.
    kill(terminal, paths.holder().pid)
    found = terminal("ps")
    assert found.err == "service not running, 1 run waits; the next command that changes a run starts it\n"
    assert listed(terminal)["train:1"] == ["Running", "2/3"]

    # Then the process of the run.
    kill(terminal, terminal.owner("train:1"))
    terminal.until(lambda: terminal("ps").err == SILENT)
    assert listed(terminal)["train:1"] == ["Waiting", "0/3", "its process was killed"]
    assert terminal("why", "train").out == "train:1 Waiting: its process was killed; the service recovers it\n"
    refused = terminal("exec", "train/worker-1", "--", "true", code=1).err
    assert refused == "train:1 is not running: its process was killed\n"
    waited = terminal("wait", "train", "--for", "running")
    assert (waited.out, waited.err) == ("train:1 Running\n", KILLED)
    assert terminal("ps").err == ""
    terminal.until(lambda: listed(terminal)["train:1"] == ["Running", "2/3"])

    # The machine is restarted.
    kill(terminal, paths.holder().pid, terminal.owner("train:1"))
    (workspace.state / "runs/default/train/1" / FILE).write_bytes(msgspec.json.encode(Owner(7, 7, "another-boot")))
    (workspace.directory / "go").touch()
    waited = terminal("wait", "train", "sweep")
    assert (waited.out, waited.err) == ("train:1 Succeeded\nsweep:1 Succeeded\n", RESTARTED)
    assert terminal("ps", "-a").err == ""
    assert {run: row[0] for run, row in listed(terminal).items()} == {
        "train:1": "Succeeded",
        "sweep:1": "Succeeded",
        "broken:1": "Failed",
    }
    counts = {name: (workspace.directory / f"{name}.txt").read_text().split() for name in ("data", "sweep", "starts")}
    assert counts == {"data": ["once"], "sweep": ["once"], "starts": ["start"] * 6}
