"""`kill -9` of a supervisor at counted places: the next one goes on, and the run ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pumice.client.local.connections import call
from pumice.client.local.lease import LocalLease
from pumice.client.local.local_backend import LocalBackend
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.queued_runs import recover
from pumice.engines.local.supervisor import leased_process
from pumice.model.vocabulary import SUSPENDED
from pumice.reconcile.ledger import read_ledger
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.journal import Entry, read_journal
from pumice.store.run_errors import ConnectionFailed, RunError
from tests.conftest import SOAK, seed
from tests.local.crashing import (
    POINTS,
    CrashPoint,
    Lives,
    fork_leased,
    nothing_left,
    passed,
    record_of,
    request_of,
    status_of,
)
from tests.local.running import Manifest, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

DRAWN = 5  # places that `make test` tries; `make soak` tries all
RESTARTED = job(
    task("quick", "echo ran >> quick.txt"),
    task("w", "test -e failed || { touch failed; exit 3; }", replicas=2),
    policies=[{"event": "PodFailed", "action": "RestartJob"}],
    maxRetry=2,
)
WAITING = job(task("quick", "echo ran >> quick.txt"), task("w", "touch up; while [ ! -e go ]; do sleep 0.2; done"))


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def make_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Manifest], Lives]]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = RunStore(tmp_path / "state" / "pumice")

    def make(document: Manifest) -> Lives:
        return Lives(store, record_of(document, tmp_path, store.state), tmp_path)

    yield make
    assert nothing_left(store, tmp_path) == []


def check_journal(run: StoredRun) -> None:
    """Spent retries never fall, the numbers of records rise, and what has succeeded is not repeated."""
    entries = read_journal(run.directory)[0]
    numbers = [entry.seq for entry in entries]
    assert numbers == sorted(set(numbers))
    statuses = [status for entry in entries if (status := status_of(entry)) is not None]
    for spent in ([status.retry_count for status in statuses], [read_ledger(each).spent for each in statuses]):
        assert spent == sorted(spent)
    assert repeated(entries) == []
    assert [entry.kind for entry in entries].count("RunEnded") == 1


def repeated(entries: list[Entry]) -> list[str]:
    """Return pods that were created though another one with this name had succeeded in the same attempt.

    A pod that ends while it is deleted counts as deleted, however it ends.
    """
    succeeded: dict[tuple[str, int], str] = {}
    found = []
    for pod in (entry.plain()["pod"] for entry in entries if entry.kind == "PodChanged"):
        first = succeeded.get((pod["name"], pod["retry"]), pod["uid"])
        if first != pod["uid"]:
            found.append(f"{pod['name']} attempt {pod['retry'] + 1}: {pod['uid']} after {first}")
        if pod["phase"] == "Succeeded" and pod["deleted_at"] is None:
            succeeded[pod["name"], pod["retry"]] = first
    return found


def drawn(points: list[CrashPoint], number: int = DRAWN) -> list[CrashPoint]:
    """Return all places, or one of each of some labels."""
    if SOAK:
        return points
    chance = random.Random(seed())
    by_label: dict[str, list[CrashPoint]] = {}
    for point in points:
        by_label.setdefault(point[0], []).append(point)
    return [chance.choice(by_label[label]) for label in chance.sample(sorted(by_label), min(number, len(by_label)))]


def numbered(labels: list[str]) -> list[CrashPoint]:
    counts = Counter[str]()
    found = []
    for label in labels:
        counts[label] += 1
        found.append((label, counts[label]))
    return found


def test_a_killed_supervisor_is_replaced_wherever_it_was(
    make_lives: Callable[[Manifest], Lives], record_property: Callable[[str, object], None]
) -> None:
    lives = make_lives(RESTARTED)
    whole = lives.submit()
    assert not lives.ended(lives.start())
    assert whole.status().phase == "Completed"
    check_journal(whole)
    died = 0
    for point in drawn(numbered(passed(whole.directory))):
        run = lives.submit()
        killed = lives.ended(lives.start(point))
        died += killed
        lives.go_on(run)
        status = run.status()
        assert (status.phase, status.exit_code, status.stopped) == ("Completed", 0, False), (point, status)
        try:
            check_journal(run)
        except AssertionError as error:
            raise AssertionError(f"killed {point}: {error}") from error
        assert not run.is_owned
    # The order of a few events differs from life to life, so that the last of a kind may not come.
    assert died >= DRAWN - 2
    record_property("crash points of a supervisor", died)


def complete(lives: Lives, run: StoredRun) -> None:
    """Do what `resume` does, without a service, and let the pods end."""
    if run.status().reason == SUSPENDED:
        lock = OwnerLock.take(run.directory)
        assert lock is not None
        queued_runs.resume(lives.store, run)
        lock.release()
    lives.workdir(run, "go").touch()
    lives.go_on(run)


def asked(lives: Lives, at: CrashPoint | None, request: str, **fields: object) -> tuple[StoredRun, bool, bool]:
    """Return a run, whether it accepted the request, and whether its supervisor was killed."""
    run = lives.submit()
    pid = lives.start(at)
    deadline = time.monotonic() + PATIENCE
    while not lives.workdir(run, "up").exists() and run.is_owned:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    accepted = True
    try:
        asyncio.run(call(run, request, **fields))
    except RunError:
        accepted = False
    return run, accepted, lives.ended(pid)


def test_an_accepted_suspend_outlives_the_supervisor(
    make_lives: Callable[[Manifest], Lives], record_property: Callable[[str, object], None]
) -> None:
    lives = make_lives(WAITING)
    whole, accepted, killed = asked(lives, None, "suspend")
    assert (accepted, killed, whole.status().reason) == (True, False, SUSPENDED)
    labels = numbered(passed(whole.directory))
    complete(lives, whole)
    after = list(itertools.dropwhile(lambda point: point[0] != "after LocalRun.suspend", labels))
    died = 0
    for point in drawn(after, 4):
        run, accepted, killed = asked(lives, point, "suspend")
        died += killed
        recover(lives.store, run)
        # Without an answer, the request may have been accepted, or not.
        assert run.status().reason == SUSPENDED or not accepted, (point, run.status())
        complete(lives, run)
        assert (run.status().phase, run.status().exit_code) == ("Completed", 0), (point, run.status())
        assert repeated(read_journal(run.directory)[0]) == []
    assert died >= 2
    record_property("crash points of a suspend", died)


def test_other_accepted_requests_outlive_the_supervisor(make_lives: Callable[[Manifest], Lives]) -> None:
    lives, recorded = make_lives(WAITING), ("after Journal.append RequestAccepted", 1)
    stopped, _, killed = asked(lives, recorded, "stop")
    assert killed
    line = recover(lives.store, stopped)
    assert line == "trial:1 was stopped; the process that ran it was killed meanwhile"
    status = stopped.status()
    assert (status.phase, status.reason, status.exit_code, status.stopped) == ("Terminated", "Stopped", 143, True)
    scaled, _, killed = asked(lives, recorded, "scale", replicas={"w": 2})
    assert killed
    complete(lives, scaled)
    assert (scaled.status().phase, scaled.status().pods.succeeded) == ("Completed", 3)


async def detached_by_client(lives: Lives, home: Path, at: CrashPoint | None) -> tuple[bool, bool]:
    """Start a foreground run in a directory, and detach it. Return whether it said so, and whether it was killed."""
    process = fork_leased(home / POINTS, at)
    environ = {**os.environ, "XDG_STATE_HOME": str(lives.store.state.parent)}
    lease = LocalLease(LocalBackend(environ), request_of(WAITING, home, lives.store.state), process)
    try:
        async with asyncio.timeout(PATIENCE):

            async def detach() -> None:
                while not (home / "up").exists():  # noqa: ASYNC110 - the pod does not tell
                    await asyncio.sleep(0.02)
                with suppress(RunError):
                    await lease.detach()

            detaching = asyncio.create_task(detach())
            async for _event in lease.events():
                pass
            await detaching
    except ConnectionFailed:
        # Its process was killed.
        return False, await asyncio.to_thread(process.child.wait) == -signal.SIGKILL
    if lease.is_detached:
        (home / "go").touch()
    return lease.is_detached, await asyncio.to_thread(process.child.wait) == -signal.SIGKILL


def test_a_run_whose_process_is_killed_while_it_is_detached_continues_or_ends(
    make_lives: Callable[[Manifest], Lives],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    async def no_service(*_wanted: object) -> None:
        raise ConnectionFailed("there is no service")

    monkeypatch.setattr(leased_process, "ask_service", no_service)
    lives = make_lives(WAITING)
    whole = tmp_path / "whole"
    whole.mkdir()
    assert asyncio.run(detached_by_client(lives, whole, None)) == (True, False)
    labels = numbered(passed(whole))
    begun = itertools.dropwhile(lambda point: point[0] != "before leased_process.keep_secrets", labels)
    died = 0
    for number, point in enumerate(drawn(list(begun), 4)):
        home = tmp_path / f"home{number}"
        home.mkdir()
        was_detached, killed = asyncio.run(detached_by_client(lives, home, point))
        died += killed
        (home / "go").touch()
        (run,) = (each for each in lives.store.all_runs() if each.record.number == number + 2)
        lives.go_on(run)
        status = run.status()
        assert status.phase == "Completed" or (status.reason == "ClientLost" and not was_detached), (point, status)
        assert not run.is_owned
    assert died >= 2
    record_property("crash points of a detach", died)
