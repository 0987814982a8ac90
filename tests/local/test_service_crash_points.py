"""`kill -9` after every file operation of the service: the next process finds the same end state.

A child does the work and kills itself at the N-th operation, for every N until the work is done.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import Waiting
from pumice.engines.local.scheduling.run_queue import active_runs, is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.queue_turn import QueueTurn
from pumice.engines.local.service.queued_runs import recover
from pumice.store.files.owner_lock import FILE, Owner, OwnerLock
from pumice.store.files.retention import prune
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.journal import read_journal
from pumice.store.run_record import RunStatus
from pumice.store.settings import Retention
from tests.local.queued import record

OPERATIONS = frozenset(
    {"open", "os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "os.truncate", "fcntl.flock"}
)
NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
UID = "00000001-0000-0000-0000-000000000000"
LIVES = 200  # more operations than any of these works has


def dies_at(work: Callable[[], object], number: int) -> bool:
    """Do the work in a child, which kills itself at the N-th operation. Return whether it did."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, _arguments: object) -> None:
            nonlocal left
            if event not in OPERATIONS:
                return
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            work()
        except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as pytest
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed"
    return False


def each_crash(
    tmp_path: Path,
    work: Callable[[RunStore], object],
    check: Callable[[RunStore], None],
    prepare: Callable[[RunStore], object] = lambda _store: None,
) -> int:
    """Let the work die at each of its operations, in a store of its own each time; return how many there were."""
    for number in range(1, LIVES):
        store = RunStore(tmp_path / f"state{number}")
        store.state.mkdir()
        prepare(store)
        died = dies_at(lambda: work(store), number)  # noqa: B023 - called before the next turn
        check(store)
        if not died:
            return number - 1
    pytest.fail("the work has too many operations")


def submitted(store: RunStore, home: Path) -> StoredRun:
    return queued_runs.submit(store, record(home, UID, cpu="1"))


def turn_of(store: RunStore, launched: list[str]) -> QueueTurn:
    def launch(run: StoredRun, _lock: OwnerLock) -> None:
        launched.append(run.ref)

    def machine(_waiting: Sequence[Waiting]) -> Machine:
        return Machine((0, 1), 2, 1 << 30, (), 1 << 30)

    return QueueTurn(store, launch, lambda: NOW, machine)


def one_run(store: RunStore) -> tuple[StoredRun, RunStatus]:
    (run,) = store.all_runs()
    assert [each.record.uid for each in store.active_runs()] == [run.record.uid]
    assert store.active_runs()[0].directory.resolve() == run.directory.resolve()
    return run, run.status()


def test_a_submit_that_dies_is_repeated_and_yields_one_run(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    def check(store: RunStore) -> None:
        # The client did not get its answer, or did, and asks again.
        run = submitted(store, tmp_path)
        stored, status = one_run(store)
        assert stored.ref == run.ref
        assert is_waiting(status)
        assert [entry.kind for entry in read_journal(run.directory)[0]].count("Queued") >= 1
        assert not run.is_owned

    points = each_crash(tmp_path, lambda store: submitted(store, tmp_path), check)
    record_property("crash points of a submit", points)
    assert points >= 15


def test_a_stored_run_that_nobody_asks_for_again_is_queued_by_the_next_service(tmp_path: Path) -> None:
    def check(store: RunStore) -> None:
        for run in store.active_runs():
            recover(store, run)
            assert is_waiting(run.status())

    each_crash(tmp_path, lambda store: submitted(store, tmp_path), check)


def test_a_start_that_dies_is_made_good(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    def work(store: RunStore) -> None:
        turn_of(store, []).take(active_runs(store))

    def check(store: RunStore) -> None:
        """The supervisor died with the service, or never started."""
        run, _ = one_run(store)
        recover(store, run)
        assert is_waiting(run.status())
        assert run.status().arrival == 1
        launched: list[str] = []
        turn_of(store, launched).take(active_runs(store))
        assert launched == [run.ref]

    def prepared(store: RunStore) -> None:
        submitted(store, tmp_path)

    points = each_crash(tmp_path, work, check, prepared)
    record_property("crash points of a start", points)
    assert points >= 10


def test_a_recovery_that_dies_is_repeated(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    def prepared(store: RunStore) -> None:
        run = submitted(store, tmp_path)
        turn_of(store, []).take(active_runs(store))
        (run.directory / FILE).write_bytes(msgspec.json.encode(Owner(7, 7, "another-boot")))

    def work(store: RunStore) -> None:
        recover(store, store.active_runs()[0])

    def check(store: RunStore) -> None:
        run, _ = one_run(store)
        recover(store, run)
        status = run.status()
        assert is_waiting(status)
        assert (status.reason, status.arrival) == ("MachineRestarted", 1)
        assert [entry.kind for entry in read_journal(run.directory)[0]].count("Lost") == 1

    points = each_crash(tmp_path, work, check, prepared)
    record_property("crash points of a recovery", points)
    assert points >= 6


def test_a_removal_that_dies_is_repeated(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    def prepared(store: RunStore) -> None:
        run = submitted(store, tmp_path)
        ended = NOW - dt.timedelta(days=40)
        run.write_status(msgspec.structs.replace(run.status(), phase="Completed", finished=ended))

    def work(store: RunStore) -> None:
        prune(store, Retention(), NOW)

    def check(store: RunStore) -> None:
        for run in store.active_runs():
            recover(store, run)
        prune(store, Retention(), NOW)
        assert list(store.all_runs()) == []
        assert list(store.active.iterdir()) == []

    points = each_crash(tmp_path, work, check, prepared)
    record_property("crash points of a removal", points)
    assert points >= 5
