"""Processes of different versions: clients, services, interpreters and stores; modules that load late."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.client.backend import RemoveRun, Selection, StopRun
from pumice.client.local.local_backend import LocalBackend
from pumice.client.local.run_reader import ref_of
from pumice.engines.local.daemon import connections
from pumice.engines.local.daemon.background import start_in_background
from pumice.engines.local.daemon.connections import connection_to
from pumice.engines.local.runs import settle_lost_runs
from pumice.engines.local.service.on_demand import connected_service
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.engines.local.stored_data import claim_directory, make_claim_directories, unused_claims
from pumice.store.files.retention import prune
from pumice.store.files.run_store import RunStore
from pumice.store.run_errors import StoreError, VersionMismatch
from pumice.store.run_record import FORMAT
from pumice.store.settings import Retention
from pumice.ui.page_data import PageData
from pumice.ui.values import Group
from tests.local.commands import Terminal
from tests.local.queued import record
from tests.local.running import job, processes, task
from tests.local.sandbox.boxes import need_namespaces
from tests.local.test_service import User, uid
from tests.patience import PATIENCE

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
from pumice.engines.local.daemon import connections
hello = connections.own_hello
def other(serves=""):
    return connections.Hello(version={version!r}, protocol={protocol}, pid=hello().pid, serves=serves)
connections.own_hello = other
connections.PROTOCOLS = {protocol}
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
    command = [sys.executable, str(program), str(user.state)]
    assert start_in_background(command, user.environ, user.paths.log, PATIENCE), user.paths.log.read_text()
    return user.paths.holder().pid


def test_a_newer_client_has_an_older_service_replaced(user: User) -> None:
    old = start(user, OTHER_VERSION.format(version="0.0.0", protocol=connections.PROTOCOLS))
    assert user.service() != old
    user.wait(lambda: not Path(f"/proc/{old}").exists())


def test_an_older_client_works_while_the_protocols_overlap(user: User) -> None:
    lowest, highest = connections.PROTOCOLS
    new = start(user, OTHER_VERSION.format(version="999.0", protocol=(lowest, highest + 1)))
    assert user.service() == new


def test_an_older_client_says_what_to_upgrade(user: User) -> None:
    highest = connections.PROTOCOLS[1]
    start(user, OTHER_VERSION.format(version="999.0", protocol=(highest + 1, highest + 2)))

    async def call() -> None:
        async with connected_service(user.state, user.environ, PATIENCE):
            raise AssertionError("it has no protocol in common")

    with pytest.raises(VersionMismatch) as failed:
        asyncio.run(call())
    problem = failed.value.problem
    assert failed.value.exit_code == 1
    assert "cannot talk to pumice 999.0" in problem.message
    assert problem.hint == "upgrade the older one: pip install --upgrade pumice"

    async def retire() -> None:
        async with connection_to(user.paths.socket(user.environ)) as connection:
            await connection.call(connections.RETIRE)

    # Every version understands it.
    asyncio.run(retire())


# As the record is written today, and one whose fields mean something else.
SAME_FIELDS: dict[str, Any] = {}
OTHER_FIELDS = {"created": {"of": "another kind"}}


@pytest.mark.parametrize("fields", [pytest.param(SAME_FIELDS, id="same"), pytest.param(OTHER_FIELDS, id="other")])
@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_a_run_of_another_format_is_listed_and_never_changed(
    tmp_path: Path, number: int, fields: dict[str, Any]
) -> None:
    state = tmp_path / "state" / "pumice"
    store = RunStore(state)
    owned = store.create(store.reserve("default", "job"), msgspec.structs.replace(record(tmp_path, uid(1)), number=1))
    owned.lock.release()
    directory = owned.run.directory
    written = json.loads((directory / "run.json").read_text())
    assert written["format"] == FORMAT
    (directory / "run.json").write_text(json.dumps({**written, "format": number, "version": "0.7", **fields}))
    (directory / "status.json").write_text(json.dumps({"finished": "2020-01-01T00:00:00Z", "phase": "Completed"}))
    claim = claim_directory(state, "default", "data")
    make_claim_directories([claim])
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    client = LocalBackend(environ={"XDG_STATE_HOME": str(state.parent), "HOME": str(tmp_path)})
    (listed,) = client.listing(Selection(everything=True)).runs
    words = "written by another version of Pumice, 0.7"
    assert (listed.run, listed.message, listed.readable) == ("job:1", words, False)
    assert client.listing(Selection(everything=True, mine=True)).runs == []
    settle_lost_runs(store)
    assert prune(store, Retention(keep_days=0, keep_per_name=0), client.now()) == []
    # It is active, and which claims it uses is not known.
    assert unused_claims(store) == []
    with pytest.raises(StoreError, match=words):
        client.find_stored("job:1")
    page = PageData(client)
    (row,) = asyncio.run(page.listing(Group.ALL, "", "")).items
    assert row.text.startswith(words.partition(",")[0])
    (run,) = store.all_runs()
    for refused in (
        lambda: asyncio.run(client.change(ref_of(run), StopRun())),
        lambda: asyncio.run(client.change(ref_of(run), RemoveRun(force=True))),
        lambda: store.remove(run),
        lambda: asyncio.run(page.job(uid(1))),
    ):
        with pytest.raises(StoreError, match=words):
            refused()
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
        run="import os\nif os.fork(): os._exit(0)\nmodule.main(sys.argv[1], int(sys.argv[2]))\nos._exit(0)",
    )
    supervisor = LATE.format(
        module="pumice.engines.local.supervisor.process",
        name="stored_run",
        out=str(out) + "-supervisor",
        run="code = module.main(pathlib.Path(sys.argv[-2]), int(sys.argv[-1]))\nos._exit(code)",
    )
    (tmp_path / "service.py").write_text(service)
    (tmp_path / "supervisor.py").write_text(supervisor)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' -I '{tmp_path / 'supervisor.py'}' \"$@\"\n")
    python.chmod(0o755)
    paths = ServicePaths(terminal.workspace.state)
    command = [sys.executable, str(tmp_path / "service.py"), str(terminal.workspace.state)]
    assert start_in_background(command, terminal.workspace.env, paths.log, PATIENCE), paths.log.read_text()
    run = terminal.submit(job(task("w", "echo done"), plugins={"ssh": []}), flags=("--hold",))
    file = terminal.workspace.state / "runs/default/trial/1/run.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "python": str(python)}))
    terminal("resume", run)
    assert terminal("wait", run).out == f"{run} Succeeded\n"
    other = terminal.submit(job(task("w", "echo done")), flags=("--hold",))
    file = terminal.workspace.state / "runs/default/trial/2/run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "python": str(tmp_path / "gone")}))
    terminal("resume", other)
    assert terminal("wait", other).out == f"{other} Succeeded\n"
    assert f"{tmp_path / 'gone'}, which submitted the run, is gone; " in terminal("history", other, "--events").out
    terminal("service", "stop")
    terminal.until(lambda: not processes(str(tmp_path)))
    assert Path(f"{out}-supervisor").read_text() == "late: "
    assert Path(f"{out}-service").read_text() == "late: "
