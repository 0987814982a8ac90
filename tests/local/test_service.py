"""The service of a user: real processes, killed at will; supervisors that run no pods."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.engines.local.daemon.connections import RETIRE, AnswerLostError
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.service import on_demand
from pumice.engines.local.service.on_demand import ask_service, connected_service, running_service
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.store.files.owner_lock import FILE, Owner, read_owner
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.journal import read_journal
from pumice.store.run_errors import ConnectionFailed
from pumice.store.run_record import RunRecord, RunStatus
from tests.local.queued import environment, record
from tests.patience import PATIENCE


class User:
    """A user with a state directory of his own."""

    def __init__(self, home: Path) -> None:
        self.home, self.state, self.environ = home, home / "state", environment(home)
        self.state.mkdir()
        self.store, self.paths = RunStore(self.state), ServicePaths(self.state)

    def call(self, what: str, **fields: Any) -> Any:
        return asyncio.run(ask_service(self.state, self.environ, what, **fields))

    def submit(self, wanted: RunRecord) -> StoredRun:
        answer = self.call("submit", record=msgspec.to_builtins(wanted))
        return self.store.find(answer["run"])

    def service(self) -> int:
        return int(self.call("status")["pid"])

    def finish(self, run: StoredRun) -> None:
        (self.state / f"finish-{run.record.uid}").touch()

    def events(self) -> list[str]:
        path = self.state / "events"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_events(self, lines: list[str]) -> None:
        self.wait(lambda: self.events() == lines)

    def wait(self, goal: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not goal():
            assert time.monotonic() < deadline, self.paths.log.read_text()
            time.sleep(0.02)

    def wait_for(self, run: StoredRun, goal: Callable[[RunStatus], object]) -> RunStatus:
        self.wait(lambda: goal(run.status()))
        return run.status()

    def kill_supervisor(self, run: StoredRun) -> None:
        """Kill it once it has signed its lock."""
        self.wait(lambda: read_owner(run.directory).is_alive)
        os.kill(read_owner(run.directory).pid, signal.SIGKILL)

    def close(self) -> None:
        for run in self.store.active_runs():
            # The service may start a supervisor in place of one that is killed: that one ends by itself.
            self.finish(run)
            owner = read_owner(run.directory)
            if run.is_owned and owner.is_alive:
                os.kill(owner.pid, signal.SIGKILL)

        async def retire() -> None:
            # It may be ending already.
            with suppress(AnswerLostError):
                async with running_service(self.state, self.environ) as connection:
                    if connection is not None:
                        await connection.call(RETIRE)

        asyncio.run(retire())


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    found = User(tmp_path)
    yield found
    found.close()


def whole_machine() -> str:
    return str(read_machine(environ={}).cpu_share)


def uid(number: int) -> str:
    return f"{number:08d}-0000-0000-0000-000000000000"


def test_runs_take_turns_and_the_same_uid_is_one_run(user: User, tmp_path: Path) -> None:
    first = user.submit(record(tmp_path, uid(1), cpu=whole_machine()))
    again = user.submit(record(tmp_path, uid(1), cpu=whole_machine()))
    assert (first.ref, again.ref, first.directory) == ("job:1", "job:1", again.directory)
    user.wait_for(first, lambda status: status.started)
    second = user.submit(record(tmp_path, uid(2), cpu="500m"))
    third = user.submit(record(tmp_path, uid(3), cpu="500m", priority=1))
    held = user.wait_for(second, lambda status: status.note.endswith("second in queue"))
    assert held.note.startswith("cpu: 0.5 wanted, 0 free; job:1 holds ")
    assert user.wait_for(third, lambda status: status.note.endswith("first in queue")).started is None
    socket = user.paths.socket(user.environ)
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert user.call("status")["queued"] == 2
    user.finish(first)
    user.wait_for(second, lambda status: status.started)
    user.wait_for(third, lambda status: status.started)
    assert user.events()[:2] == ["begin job:1", "end job:1"]
    for run in (second, third):
        user.finish(run)
        user.wait_for(run, lambda status: status.finished)
    assert sorted(user.events()[2:]) == ["begin job:2", "begin job:3", "end job:2", "end job:3"]
    user.wait(lambda: user.store.active_runs() == [])


def test_kill_9_of_the_service_loses_nothing_and_starts_nothing_twice(user: User, tmp_path: Path) -> None:
    running = user.submit(record(tmp_path, uid(1), cpu=whole_machine()))
    user.wait_for_events(["begin job:1"])
    queued = user.submit(record(tmp_path, uid(2), cpu=whole_machine()))
    pid = user.service()
    os.kill(pid, signal.SIGKILL)
    user.wait(lambda: not Path(f"/proc/{pid}").exists())
    assert running.is_owned, "the supervisor goes on"
    assert user.service() != pid
    user.wait(lambda: user.call("status")["running"] == 1)
    user.finish(running)
    user.wait_for(queued, lambda status: status.started)
    user.finish(queued)
    user.wait_for(queued, lambda status: status.finished)
    assert user.events() == ["begin job:1", "end job:1", "begin job:2", "end job:2"]


def test_lost_supervisors_are_replaced_until_the_third_time(user: User, tmp_path: Path) -> None:
    run = user.submit(record(tmp_path, uid(1)))
    for number in (1, 2, 3):
        user.wait_for_events(["begin job:1"] * number)
        user.kill_supervisor(run)
    status = user.wait_for(run, lambda status: status.finished)
    assert (status.phase, status.reason, status.exit_code) == ("Failed", "EngineCrashed", 1)
    assert status.message == status.note == "the process that ran it was killed 3 times within 10 minutes"
    kinds = [entry.kind for entry in read_journal(run.directory)[0]]
    assert kinds == ["Queued", "Started", "Lost", "Started", "Lost", "Started", "Lost"]
    assert status.arrival == 1
    user.wait(lambda: "job:1 failed" in user.paths.notices.read_text())
    assert user.paths.take_notices() == [
        "job:1 was interrupted: the process that ran it was killed; it is queued again",
        "job:1 was interrupted: the process that ran it was killed; it is queued again",
        "job:1 failed: the process that ran it was killed 3 times within 10 minutes",
    ]
    assert user.paths.take_notices() == []
    assert user.events() == ["begin job:1"] * 3


def test_after_a_restart_of_the_machine_runs_are_queued_again(user: User, tmp_path: Path) -> None:
    """A boot id that is not this machine's stands for the restart."""
    run = user.submit(record(tmp_path, uid(1)))
    user.wait_for_events(["begin job:1"])
    os.kill(user.service(), signal.SIGKILL)
    user.kill_supervisor(run)
    user.wait(lambda: not run.is_owned)
    (run.directory / FILE).write_bytes(msgspec.json.encode(Owner(7, 7, "another-boot")))
    user.service()
    user.wait_for_events(["begin job:1"] * 2)
    lost = next(entry for entry in read_journal(run.directory)[0] if entry.kind == "Lost")
    assert (lost.plain()["reason"], lost.plain()["message"]) == ("MachineRestarted", "the machine was restarted")
    assert user.paths.take_notices() == ["job:1 was interrupted: the machine was restarted; it is queued again"]


def test_many_clients_at_once_start_one_service(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[Path] = []
    real = on_demand.service_words

    def counted(state: Path) -> list[str]:
        starts.append(state)
        return real(state)

    monkeypatch.setattr(on_demand, "service_words", counted)

    async def status() -> int:
        async with connected_service(user.state, user.environ, PATIENCE) as connection:
            return int((await connection.call("status"))["pid"])

    async def story() -> list[int]:
        return await asyncio.gather(*(status() for _ in range(50)))

    assert len(set(asyncio.run(story()))) == 1
    assert len(starts) == 1


def test_a_removed_runtime_directory_gets_its_socket_back(user: User) -> None:
    pid = user.service()
    shutil.rmtree(user.home / "runtime" / "pumice")
    assert user.service() == pid


def test_a_service_that_cannot_start_is_explained(user: User) -> None:
    user.paths.host.mkdir(parents=True)
    (user.paths.host / "locks").write_text("in the way")

    async def story() -> None:
        pattern = r"(?s)the service does not start.*FileExistsError.*service\.log"
        with pytest.raises(ConnectionFailed, match=pattern) as failed:
            async with connected_service(user.state, user.environ, PATIENCE):
                pass
        assert failed.value.exit_code == 1

    asyncio.run(story())
