"""One turn of the queue: starts the detached runs that `plan` selects, and records why the others wait."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.diagnosis.why import Why, sentence
from pumice.engines.local.runs import append, catch_up
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import Hold, Refuse, Start, Waiting
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import is_waiting, machine_for, read_queue, why_of
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.history.entries import NoRoom, Started
from pumice.store.run_record import FOREGROUND, RunStatus

_MEMORY: Final = dt.timedelta(seconds=3)
Launch = Callable[[StoredRun, OwnerLock], None]


@dataclass(slots=True)
class QueueTurn:
    """`launch` starts the supervisor of a run whose lock it gets."""

    store: RunStore
    launch: Launch
    now: Callable[[], dt.datetime]
    machine: Callable[[Sequence[Waiting]], Machine] = machine_for
    again_at: list[dt.datetime] = field(default_factory=list)  # when it has to be taken again, if nothing happens

    def take(self, runs: list[tuple[StoredRun, RunStatus]]) -> list[str]:
        """Return the uids of the runs that were started. `runs` are the active runs of this host. Raises OSError."""
        statuses = {run.record.uid: status for run, status in runs}
        started: list[tuple[StoredRun, OwnerLock]] = []
        self.again_at = []
        directory = reservations_directory(self.store.state)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with turn(directory):
            queue = read_queue(self.store, runs)
            if not queue.waiting:
                return []
            for uid, (run, decision) in queue.decide(self.machine(queue.values()), self.now()).items():
                if isinstance(decision, Hold):
                    self.again_at += self._changes_at(decision.why)
                if run.record.mode == FOREGROUND:
                    continue  # its own process decides the same
                if not isinstance(decision, Start):
                    self._hold(run, statuses[uid], decision)
                elif (lock := _taken(run)) is not None:
                    try:
                        append(run, Started(decision.gpus))
                    except OSError:
                        # As on a full disk: it waits.
                        lock.release()
                        continue
                    started.append((run, lock))
                else:
                    # A reader may be testing the lock at this moment.
                    self.again_at.append(self.now())
        for run, lock in started:
            try:
                self.launch(run, lock)
            finally:
                # The supervisor has it now; if it could not be started, the run is lost and found again.
                lock.release()
        return [run.record.uid for run, _ in started]

    def _changes_at(self, why: Why) -> list[dt.datetime]:
        """Return when a run may start although no run begins or ends."""
        found = [] if why.drains_at is None or why.drains_at <= self.now() else [why.drains_at]
        # Other programs use and free memory, which no file tells.
        return [*found, self.now() + _MEMORY] if any(each.resource == "memory" for each in why.short) else found

    def _hold(self, run: StoredRun, status: RunStatus, decision: Hold | Refuse) -> None:
        """Record why a run waits, or end one that waited longer than it may; unless a process owns it by now."""
        why = why_of(run, decision, status.held or self.now())
        options, since, text = run.record.options, why.since or self.now(), sentence(why)
        seconds = options.get("max_wait") if options.get("wait", True) else 0.0
        # A run that was interrupted and waits again has no limit.
        ends = None if status.reason or seconds is None else since + dt.timedelta(seconds=seconds)
        over = ends is not None and self.now() >= ends
        if ends is not None and not over:
            self.again_at.append(ends)
        if not over and status.held is not None and status.note == text:
            return
        lock = OwnerLock.take(run.directory)
        if lock is None:
            return
        with lock:
            if over:
                when = f"within {seconds:g}s" if seconds else "now, and it may not wait"
                append(run, NoRoom(f"no room {when}: {text}"))
                self.store.finish(run)
            else:
                # On a full disk it waits all the same.
                with suppress(OSError):
                    run.write_status(msgspec.structs.replace(run.status(), held=why.since, note=text))


def _taken(run: StoredRun) -> OwnerLock | None:
    """Return the lock of a run that still waits: a user may have stopped or suspended it."""
    lock = OwnerLock.take(run.directory)
    if lock is None:
        return None
    # Of a full disk, it is not known whether the run waits.
    with suppress(OSError):
        if is_waiting(catch_up(run)):
            return lock
    lock.release()
    return None
