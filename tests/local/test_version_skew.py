"""Processes of different versions: clients, services, interpreters and stores; modules that load late."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pumice.client.local_client import LocalClient
from pumice.engines.local.daemon import line_protocol
from pumice.engines.local.daemon.background import start_in_background, wait_until_ready
from pumice.engines.local.daemon.line_protocol import connection_to
from pumice.engines.local.daemon.runtime_directory import socket_address
from pumice.engines.local.run_errors import StoreError, VersionMismatch
from pumice.engines.local.runs.retention import prune
from pumice.engines.local.runs.run_record import FORMAT
from pumice.engines.local.runs.run_store import RunStore
from pumice.engines.local.service.on_demand import connected_service
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.engines.local.state.settings import Retention
from tests.local.commands import Terminal
from tests.local.queued import record
from tests.local.running import job, processes, task
from tests.local.sandbox.boxes import need_namespaces
from tests.local.test_service import SECONDS, User, uid

KEPT = Path(__file__).parent / "data"
# A service or a supervisor that is run by a program of its own, which notes the modules that load after it is ready.
LATE = """
import os, pathlib, sys
from {module} import {name} as hooked
import {module} as module
def note(*args):
    found, ready = hooked(*args), set(sys.modules)
    leave = os._exit
    def noted(code):
        late = [name for name in sys.modules if name not in ready and name.startswith("pumice")]
        pathlib.Path({out!r}).write_text("late: " + " ".join(late))
        leave(code)
    os._exit = noted
    return found
module.{name} = note
{run}
"""
OTHER_VERSION = """
import sys
from pumice.engines.local.daemon import line_protocol
hello = line_protocol.own_hello
def other(serves=""):
    return line_protocol.Hello(version={version!r}, protocol={protocol}, pid=hello().pid, serves=serves)
line_protocol.own_hello = other
line_protocol.PROTOCOLS = {protocol}
from pumice.engines.local.daemon.background import detach
detach()
from pumice.engines.local.service import service_process
service_process.own_hello = other
service_process.main(sys.argv[1], int(sys.argv[2]))
"""


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    found = User(tmp_path)
    yield found
    found.close()


def start(user: User, script: str) -> int:
    """Start a service of another version; return its process id."""
    program = user.home / "other.py"
    program.write_text(script)
    reading, writing = os.pipe()
    start_in_background([sys.executable, str(program), str(user.state)], user.environ, user.paths.log, writing)
    os.close(writing)
    assert wait_until_ready(reading, SECONDS), user.paths.log.read_text()
    os.close(reading)
    return user.paths.holder().pid


def test_a_newer_client_has_an_older_service_replaced(user: User) -> None:
    old = start(user, OTHER_VERSION.format(version="0.0.0", protocol=line_protocol.PROTOCOLS))
    assert user.service() != old
    user.wait(lambda: not Path(f"/proc/{old}").exists())


def test_an_older_client_works_while_the_protocols_overlap(user: User) -> None:
    lowest, highest = line_protocol.PROTOCOLS
    new = start(user, OTHER_VERSION.format(version="999.0", protocol=(lowest, highest + 1)))
    assert user.service() == new


def test_an_older_client_says_what_to_upgrade(user: User) -> None:
    highest = line_protocol.PROTOCOLS[1]
    start(user, OTHER_VERSION.format(version="999.0", protocol=(highest + 1, highest + 2)))

    async def call() -> None:
        async with connected_service(user.state, user.environ, SECONDS):
            raise AssertionError("it has no protocol in common")

    with pytest.raises(VersionMismatch) as failed:
        asyncio.run(call())
    problem = failed.value.problem
    assert failed.value.exit_code == 1
    assert "cannot talk to pumice 999.0" in problem.message
    assert problem.hint == "upgrade the older one: pip install --upgrade pumice"

    async def retire() -> None:
        async with connection_to(user.paths.socket(user.environ)) as connection:
            await connection.call(line_protocol.RETIRE)

    # Every version understands it.
    asyncio.run(retire())


def test_messages_of_an_earlier_version_are_still_understood(user: User) -> None:
    """Every line that an earlier version sent gets an answer with the keys that it got then."""
    user.service()

    async def replay() -> None:
        with socket_address(user.paths.socket(user.environ)) as address:
            reader, writer = await asyncio.open_unix_connection(address)
        for line in (KEPT / "conversation-1.jsonl").read_text().splitlines():
            kept = json.loads(line)
            if "sent" in kept:
                writer.write(json.dumps(kept["sent"]).encode() + b"\n")
                continue
            expected, answer = kept["received"], json.loads(await reader.readline())
            assert answer.keys() == expected.keys(), answer
            for name, value in expected.items():
                assert not isinstance(value, dict) or set(value) <= set(answer[name]), answer
        writer.close()

    asyncio.run(asyncio.wait_for(replay(), SECONDS))


def test_a_store_of_an_earlier_version_is_read_and_pruned(tmp_path: Path) -> None:
    state = tmp_path / "state" / "pumice"
    shutil.copytree(KEPT / "store-2", state)
    client = LocalClient(environ={"XDG_STATE_HOME": str(state.parent), "HOME": str(tmp_path)})
    found = {each.run: each for each in client.runs(everything=True)}
    assert {run: (each.phase, each.exit_code) for run, each in found.items()} == {
        "fails:1": ("Failed", 3),
        "works:1": ("Completed", 0),
    }
    assert "exit code 3" in str(found["fails:1"].verdict)
    run = client.find("fails")
    assert client.why(run).code == "Failed"
    store = RunStore(state)
    assert prune(store, Retention(keep_days=0), client.now()) == []  # runs of another host
    renamed = msgspec.structs.replace(run.record, host=record(tmp_path, uid(1)).host)
    (run.directory / "run.json").write_bytes(msgspec.json.encode(renamed))
    assert prune(store, Retention(keep_days=0), client.now()) == ["fails:1"]


def test_a_run_of_a_newer_version_is_listed_and_never_changed(tmp_path: Path) -> None:
    state = tmp_path / "state" / "pumice"
    store = RunStore(state)
    owned = store.create(store.reserve("default", "job"), msgspec.structs.replace(record(tmp_path, uid(1)), number=1))
    owned.lock.release()
    directory = owned.run.directory
    newer = {"format": FORMAT + 1, "version": "999.0", "uid": uid(1), "created": {"of": "another kind"}}
    (directory / "run.json").write_text(json.dumps(newer))
    (directory / "status.json").write_text(json.dumps({"finished": "2020-01-01T00:00:00Z", "phase": "Completed"}))
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    client = LocalClient(environ={"XDG_STATE_HOME": str(state.parent), "HOME": str(tmp_path)})
    (listed,) = client.runs(everything=True)
    assert (listed.run, listed.note, listed.readable) == ("job:1", "written by a newer Pumice, 999.0", False)
    assert client.active() == []
    client.settle()
    assert prune(store, Retention(keep_days=0, keep_per_name=0), client.now()) == []
    with pytest.raises(StoreError, match="written by a newer Pumice"):
        client.find("job:1")
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_run_whose_python_is_gone_and_no_module_loads_late(tmp_path: Path) -> None:
    """The run is submitted by a Python that is removed before the run starts."""
    need_namespaces()
    terminal = Terminal(tmp_path)
    out = tmp_path / "late"
    service = LATE.format(
        module="pumice.engines.local.service.service_process",
        name="report_ready",
        out=str(out) + "-service",
        run="import os\nif os.fork(): os._exit(0)\nmodule.main(sys.argv[1], int(sys.argv[2]))",
    )
    supervisor = LATE.format(
        module="pumice.engines.local.supervisor.process",
        name="session_of",
        out=str(out) + "-supervisor",
        run="module.main(pathlib.Path(sys.argv[-2]), int(sys.argv[-1]))",
    )
    (tmp_path / "service.py").write_text(service)
    (tmp_path / "supervisor.py").write_text(supervisor)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{tmp_path / 'supervisor.py'}' \"$@\"\n")
    python.chmod(0o755)
    paths = ServicePaths(terminal.workspace.state)
    reading, writing = os.pipe()
    command = [sys.executable, str(tmp_path / "service.py"), str(terminal.workspace.state)]
    start_in_background(command, terminal.workspace.env, paths.log, writing)
    os.close(writing)
    assert wait_until_ready(reading, SECONDS), paths.log.read_text()
    os.close(reading)
    run = terminal.submit(job(task("w", "echo done"), plugins={"ssh": []}), flags=("--hold",))
    file = terminal.workspace.state / "runs/default/trial/1/run.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "python": str(python)}))
    terminal("resume", run)
    assert terminal("wait", run).out == f"{run} Completed\n"
    other = terminal.submit(job(task("w", "echo done")), flags=("--hold",))
    file = terminal.workspace.state / "runs/default/trial/2/run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "python": str(tmp_path / "gone")}))
    terminal("resume", other)
    assert terminal("wait", other).out == f"{other} Completed\n"
    assert f"{tmp_path / 'gone'}, which submitted the run, is gone; " in terminal("history", other, "--events").out
    terminal("service", "stop")
    terminal.until(lambda: not processes(str(tmp_path)))
    assert Path(f"{out}-supervisor").read_text() == "late: "
    assert Path(f"{out}-service").read_text() == "late: "
