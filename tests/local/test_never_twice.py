"""Random kills of the service, of supervisors, of sandboxes and of pods: no pod runs twice, no run is lost.

Each pod holds a lock of its name while it lives, and writes down when it began. Two pods of one name would meet at the
lock, which the kernel releases when the last process of a pod has ended.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from pumice.client.backend import StopRun
from pumice.client.local.local_backend import LocalBackend
from pumice.client.local.run_reader import ref_of
from pumice.engines.local.service.on_demand import ask_service
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.store.files.owner_lock import Owner, read_owner
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.journal import read_journal
from pumice.store.run_record import RunRecord
from tests.conftest import SOAK, seed
from tests.local.crashing import nothing_left, record_of
from tests.local.killing import Process
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

ACTIVE = 3  # runs at once
# $0 is the name of the pod. A lock that is held means that another pod of this name lives.
POD = """
exec 8>"lock-$0" || exit 9
flock -n 8 || { echo "$0" >> overlaps; exit 9; }
echo "$0 $(cat /proc/uptime)" >> begins
while [ ! -e go ]; do sleep 0.3; done
echo "$0" >> ends
"""
# Which processes are killed, and how often: 500 kills in `make soak`. To start a supervisor takes a second of processor
# time, so most of the 20 in `make test` are pods.
VICTIMS = (
    {"pod": 200, "supervisor": 120, "service": 60, "sandbox": 60, "service and supervisor": 60}
    if SOAK
    else {"pod": 16, "supervisor": 1, "service": 1, "sandbox": 1, "service and supervisor": 1}
)
FINISHED = 0.05  # of the kills come with the end of a run, so that some hit runs that end
MOST_LOSSES = 2  # of one run: the third time within ten minutes ends it


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@dataclass(slots=True)
class Chaos:
    home: Path
    chance: random.Random
    record: RunRecord
    client: LocalBackend = field(default_factory=LocalBackend)
    runs: list[StoredRun] = field(default_factory=list)
    losses: Counter[str] = field(default_factory=Counter)  # of supervisors and sandboxes, by run
    killed: Counter[str] = field(default_factory=Counter)

    @property
    def store(self) -> RunStore:
        return self.client.store

    def submit(self) -> None:
        """Submit a run, twice: as a client does that got no answer."""
        number = len(self.runs) + 1
        workdir = self.home / f"run{number}"
        workdir.mkdir()
        options = {**self.record.options, "settings": {**self.record.options["settings"], "workdir": str(workdir)}}
        uid = f"{number:08d}-0000-0000-0000-000000000000"
        wanted = msgspec.to_builtins(msgspec.structs.replace(self.record, uid=uid, options=options))
        asked = (ask_service(self.store.state, os.environ, "submit", record=wanted) for _ in range(2))
        names = {asyncio.run(each)["run"] for each in asked}
        assert names == {f"trial:{number}"}
        self.runs.append(self.store.find(names.pop()))

    def active(self) -> list[StoredRun]:
        return [run for run in self.runs if run.status().finished is None]

    def kill(self, what: str) -> bool:
        """Kill one process, or two; then have a service, as after the next command. False if none is there."""
        pids = self._pids(what)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed[what] += bool(pids)
        if "service" in what and pids:
            asyncio.run(self.client.wake_service())
        return bool(pids)

    def _pids(self, what: str) -> list[int]:
        service = [self.service()] if "service" in what else []
        if what == "service":
            return service
        owned = [(run, read_owner(run.directory)) for run in self.active()]
        # The service signs the lock of a run that it has just stored.
        alive = [(run, owner) for run, owner in owned if owner.is_alive and owner.pid != self.service()]
        if what == "pod":
            inside = [each.pid for run, owner in alive for each in _below(owner.pid, 3)]
            return [self.chance.choice(inside)] if inside else []
        spared = [each for each in alive if self.losses[each[0].ref] < MOST_LOSSES]
        if not spared:
            return []
        run, owner = self.chance.choice(spared)
        if self.losses[run.ref] == MOST_LOSSES - 1:
            self.finish(run)
        victims = [each.pid for each in _below(owner.pid, 2)] if what == "sandbox" else [owner.pid]
        self.losses[run.ref] += bool(victims)
        return [*service, *victims[:1]] if victims else []

    def tried(self, what: str) -> bool:
        """Have enough runs, and kill at a random moment. False if there was nothing to kill."""
        while len(self.active()) < ACTIVE:
            self.submit()
        time.sleep(self.chance.random() * 0.3)
        return self.kill(what)

    def finish(self, run: StoredRun) -> None:
        """Let the pods of a run end."""
        (self.home / f"run{run.record.number}" / "go").touch()

    def service(self) -> int:
        return msgspec.json.decode(ServicePaths(self.store.state).lock.read_bytes(), type=Owner).pid

    def wait(self, goal: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not goal():
            assert time.monotonic() < deadline, ServicePaths(self.store.state).log.read_text()
            time.sleep(0.05)


def _below(pid: int, depth: int) -> list[Process]:
    """Return the descendants of a process at a depth: 1 is the sandbox's supervisor, 2 job-init, 3 the pods."""
    everyone, found = list(Process.all()), {pid}
    for _ in range(depth):
        found = {each.pid for each in everyone if each.parent in found}
    return [each for each in everyone if each.pid in found]


@pytest.fixture
def chaos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chaos]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pods = [task(name, "", container={"command": ["sh", "-c", POD, name]}) for name in ("a", "b")]
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    record = record_of(job(*pods, policies=policies, maxRetry=100), tmp_path, tmp_path / "state" / "pumice")
    found = Chaos(tmp_path, random.Random(seed()), record)
    yield found
    for run in found.active():
        asyncio.run(found.client.change(ref_of(run), StopRun(force=True)))
    asyncio.run(found.client.stop_service())
    assert nothing_left(found.store, tmp_path) == []


def test_no_pod_runs_twice_and_no_run_is_lost(
    chaos: Chaos, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    wanted = [what for what, number in VICTIMS.items() for _ in range(number)]
    chaos.chance.shuffle(wanted)
    for what in wanted:
        if chaos.runs and chaos.chance.random() < FINISHED:
            chaos.finish(chaos.chance.choice(chaos.runs))
        chaos.wait(lambda: chaos.tried(what))  # noqa: B023 - called before the next turn
    for run in chaos.active():
        chaos.finish(run)
    asyncio.run(chaos.client.wake_service())
    chaos.wait(lambda: not chaos.active())
    assert list(tmp_path.glob("run*/overlaps")) == []
    assert {run.record.uid for run in chaos.store.all_runs()} == {run.record.uid for run in chaos.runs}
    for run in chaos.runs:
        status, kinds = run.status(), [entry.kind for entry in read_journal(run.directory)[0]]
        if status.reason == "EngineCrashed":
            # A service that is killed while it starts a supervisor costs the run that, too.
            assert kinds.count("Lost") == MOST_LOSSES + 1
            continue
        assert (status.phase, status.exit_code) == ("Completed", 0), (run.ref, status)
        assert set((tmp_path / f"run{run.record.number}" / "ends").read_text().split()) == {"a", "b"}
    for what, number in chaos.killed.items():
        record_property(f"kills: {what}", number)
    record_property("runs under kills", len(chaos.runs))
