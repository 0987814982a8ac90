"""The queue of this machine, read from the store: who waits, who runs, and what `plan` decides about it.

Every process that starts runs evaluates it in its turn (`reservations.turn`) and starts only its own, so the order is
the same with and without the service.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pumice.diagnosis.why import Why, WhyCode, sentence
from pumice.engines.local.scheduling.machine import Machine, read_gpu_programs, read_machine
from pumice.engines.local.scheduling.plan import PATIENCE, Decision, Hold, PodSet, Refuse, Running, Start, Waiting, plan
from pumice.engines.local.scheduling.reservations import live_reservations, reservations_directory, turn
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.run_record import FOREGROUND, GangPods, RunStatus


class RunQueue(Struct, frozen=True):
    """What the store says about the runs of this machine at one moment."""

    waiting: Mapping[str, tuple[StoredRun, Waiting]]  # by uid
    running: Sequence[Running]

    def values(self) -> list[Waiting]:
        return [waiting for _, waiting in self.waiting.values()]

    def decide(
        self, machine: Machine, now: dt.datetime, patience: dt.timedelta = PATIENCE
    ) -> dict[str, tuple[StoredRun, Decision]]:
        """Return what to do with each waiting run, by uid, in the order of the queue."""
        uids = {waiting.name: uid for uid, (_, waiting) in self.waiting.items()}
        decisions = plan(self.values(), self.running, machine, now, patience)
        return {uids[name]: (self.waiting[uids[name]][0], decision) for name, decision in decisions.items()}


def read_queue(store: RunStore, runs: Sequence[tuple[StoredRun, RunStatus]]) -> RunQueue:
    """Return the queue of this machine. `runs` are its active runs. Call it in your turn."""
    reserved = live_reservations(reservations_directory(store.state))
    waiting: dict[str, tuple[StoredRun, Waiting]] = {}
    running: list[Running] = []
    # A name may occur in several namespaces.
    names = Counter(run.ref for run, _ in runs)
    for run, status in runs:
        record = run.record
        name = run.ref if names[run.ref] == 1 else f"{record.namespace}/{run.ref}"
        bound = None if record.bound is None else dt.timedelta(seconds=record.bound)
        wanted = Waiting(
            name=name,
            pods=pod_sets(record.gang),
            arrival=status.arrival,
            priority=record.priority,
            scalable=record.scalable,
            gpus=None if record.gpus is None else tuple(record.gpus),
            bound=bound,
            held_since=status.held,
        )
        ends_by = None if bound is None or status.started is None else status.started + bound
        reservation = reserved.pop(record.uid, None)
        if is_waiting(status):
            # A foreground run waits as long as its process lives.
            if record.mode != FOREGROUND or run.is_owned:
                waiting[record.uid] = run, wanted
        elif reservation is not None:
            running.append(Running(name=name, amounts=reservation.amounts, gpus=reservation.gpus, ends_by=ends_by))
        elif status.started is not None and status.finished is None and run.is_owned:
            # It has its room, and its supervisor has not reserved it yet.
            running.append(Running(name=name, amounts=wanted.demand, gpus=status.gpus, ends_by=ends_by))
    for uid, reservation in reserved.items():
        running.append(Running(name=uid, amounts=reservation.amounts, gpus=reservation.gpus))
    return RunQueue(waiting, running)


def active_runs(store: RunStore) -> list[tuple[StoredRun, RunStatus]]:
    """Return the active runs of this host with their statuses."""
    return [(run, run.status()) for run in store.active_runs() if run.is_of_this_host and run.has_our_format]


def is_waiting(status: RunStatus) -> bool:
    """Return whether a run waits for its room: not one that is suspended, or that has never been queued."""
    return status.arrival > 0 and status.started is None and status.finished is None and not status.needs_resume


def pod_sets(gang: Iterable[GangPods]) -> tuple[PodSet, ...]:
    return tuple(
        PodSet(each.task, each.count, {what: Quantity.parse(text) for what, text in each.requests.items()})
        for each in gang
    )


def machine_for(waiting: Iterable[Waiting]) -> Machine:
    """Read the machine. All its GPUs count; programs on them are asked for only if a waiting run wants GPUs."""
    environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    machine = read_machine(environ=environ)
    if machine.gpus and any(GPU in each.demand for each in waiting):
        return replace(machine, gpu_programs=read_gpu_programs(environ))
    return machine


def why_it_waits(store: RunStore, run: StoredRun, now: dt.datetime) -> Why | None:
    """Return why a waiting run waits, as a reader sees it; None if it does not wait."""
    with turn(reservations_directory(store.state)):
        queue = read_queue(store, active_runs(store))
    if run.record.uid not in queue.waiting:
        return None
    _, decision = queue.decide(machine_for(queue.values()), now)[run.record.uid]
    return why_of(run, decision, run.status().held or now)


def why_of(run: StoredRun, decision: Decision, since: dt.datetime) -> Why:
    """Return the reason of a decision about a run."""
    match decision:
        case Hold(why):
            return why
        case Refuse(short):
            why = Why(run=run.ref, code=WhyCode.RESOURCES, since=since, short=short)
            return replace(why, message=f"does not fit this machine, even when it is empty; {sentence(why)}")
        case Start():
            return Why(run=run.ref, code=WhyCode.STARTING, since=since, message="resources granted, starting")


def next_arrival(state: Path) -> int:
    """Return the next number in the queue of this machine. Call it in your turn."""
    file = reservations_directory(state).with_name("arrivals")
    last = 0
    with suppress(FileNotFoundError, ValueError):
        last = int(file.read_text(encoding="ascii"))
    # A number must not be given again after a power failure: it would pass those that wait.
    replace_file(file, f"{last + 1}\n".encode())
    return last + 1
