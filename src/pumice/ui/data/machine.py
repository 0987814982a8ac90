"""The capacity of this machine, its reservations, and why runs wait: read at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final

from pumice.client.local_client import LocalClient
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.scheduling.fit import GPU
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import Running
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import (
    RunQueue,
    active_runs,
    machine_for,
    read_queue,
    waiting_of,
    why_of,
)
from pumice.engines.local.state.state_directory import host_name
from pumice.engines.local.why import Why, WhyCode, amount_text, sentence
from pumice.model.quantity import Quantity
from pumice.model.resources import Usage
from pumice.ui.values import Hint, Holder, Info, QueueEntry, Reservation, Resources, Shortage, Waiting

_FRESH: Final = 2.0  # seconds
_MACHINE_FRESH: Final = 30.0  # asking for GPUs may start a program
_UNITS: Final = {"cpu": "CPU", "memory": "memory", GPU: "GPU"}


@dataclass(slots=True)
class MachineData:
    client: LocalClient
    clock: Callable[[], float] = time.monotonic
    _machine: Machine | None = None
    _machine_read: float = float("-inf")
    _queue: RunQueue | None = None
    _queue_read: float = float("-inf")
    _runs: Sequence[tuple[StoredRun, RunStatus]] = ()
    _whys: Mapping[str, Why] = field(default_factory=dict)

    def forget(self) -> None:
        """Read again at the next call, because an action has changed something."""
        self._queue_read = float("-inf")

    def info(self) -> Info:
        queue, machine = self._read()
        uids = {run.ref: run.record.uid for run, _ in self._runs}
        return Info(
            scope="this machine",
            host=host_name(),
            version=version("pumice"),
            now=self.client.now(),
            capacity=_resources(machine.capacity(), machine.gpus),
            reserved=tuple(
                Reservation(job=each.name, uid=uids.get(each.name, ""), resources=_resources(each.amounts, each.gpus))
                for each in queue.running
            ),
        )

    def waiting(self, run: StoredRun, *, with_queue: bool = False) -> Waiting | None:
        """Return why a run waits; None if it does not."""
        queue, machine = self._read()
        why = self._whys.get(run.record.uid)
        if why is None:
            return None
        demand = queue.waiting[run.record.uid][1]
        running = {each.name: each for each in queue.running}
        free = machine.free(_total(queue.running))
        needs = [self._shortage(why, name, amount, machine.capacity(), free) for name, amount in demand.demand.items()]
        return Waiting(
            code=why.code,
            text=sentence(why),
            since=why.since,
            position=why.position,
            pods=sum(each.count for each in demand.pods),
            drains_at=why.drains_at,
            behind=why.behind or "",
            short=tuple(sorted(needs, key=lambda each: (each.short == "", each.resource))),
            hints=tuple(Hint(text=each.text, command=each.command or "") for each in why.hints)
            or _never_fits(run, why),
            queue=self._entries(run, queue, running) if with_queue else (),
        )

    def _shortage(self, why: Why, name: str, wanted: Quantity, capacity: Usage, free: Usage) -> Shortage:
        found = next((each for each in why.short if each.resource == name), None)
        if found is None:
            amounts = (wanted, free.get(name, Quantity()), capacity.get(name, Quantity()))
            texts = [amount_text(name, str(each)) for each in amounts]
            return Shortage(resource=_UNITS.get(name, name), wanted=texts[0], free=texts[1], capacity=texts[2])
        phases = {run.ref: (run.record.uid, status.phase) for run, status in self._runs}
        holders = []
        for each in found.held_by:
            program = each.program if isinstance(each.program, str) else "other programs"
            uid, phase = phases.get(each.run or "", ("", ""))
            because = "time limit" if each.ends_by is not None else ""
            amount = amount_text(name, each.amount)
            holders.append(
                Holder(
                    job=each.run or program, uid=uid, amount=amount, until=each.ends_by, because=because, phase=phase
                )
            )
        short = max(Quantity.parse(found.wanted) - Quantity.parse(found.free), Quantity())
        return Shortage(
            resource=_UNITS.get(name, name),
            wanted=amount_text(name, found.wanted),
            free=amount_text(name, found.free),
            capacity=amount_text(name, found.capacity),
            short=amount_text(name, str(short)),
            held_by=tuple(holders),
        )

    def _entries(self, run: StoredRun, queue: RunQueue, running: Mapping[str, Running]) -> tuple[QueueEntry, ...]:
        """Return the runs that hold room, then those that wait, in order."""
        phases = {each.ref: (each.record.uid, status.phase) for each, status in self._runs}
        found = []
        for each in running.values():
            uid, phase = phases.get(each.name, ("", ""))
            needs = needs_text(each.amounts, len(each.gpus))
            found.append(
                QueueEntry(position=None, job=each.name, uid=uid, phase=phase, needs=needs, until=each.ends_by)
            )
        for uid, why in self._whys.items():
            stored, demand = queue.waiting[uid]
            needs = needs_text(demand.demand, 0)
            is_this = uid == run.record.uid
            entry = QueueEntry(
                position=why.position, job=stored.ref, uid=uid, phase="Pending", needs=needs, is_this=is_this
            )
            found.append(entry)
        return tuple(found)

    def _read(self) -> tuple[RunQueue, Machine]:
        now = self.clock()
        if self._queue is None or now - self._queue_read > _FRESH:
            with turn(reservations_directory(self.client.store.state)):
                self._runs = active_runs(self.client.store)
                self._queue = read_queue(self.client.store, self._runs)
            self._queue_read = now
            age = now - self._machine_read
            if self._machine is None or age > (_FRESH if self._queue.waiting else _MACHINE_FRESH):
                self._machine, self._machine_read = machine_for(self._queue.values()), now
            decided = self._queue.decide(self._machine, self.client.now()) if self._queue.waiting else {}
            self._whys = {
                uid: why_of(run, decision, run.status().held or self.client.now())
                for uid, (run, decision) in decided.items()
            }
        if self._machine is None:
            raise RuntimeError("the machine was not read")
        return self._queue, self._machine


def _never_fits(run: StoredRun, why: Why) -> tuple[Hint, ...]:
    """Return what starts a run that does not fit the empty machine; nothing for one that does."""
    if why.code is not WhyCode.RESOURCES or why.position is not None:
        return ()
    text = "It wants more than this machine has. Lowered to what there is, it runs:"
    return (Hint(text=text, command=f"pumice submit {run.record.file or 'FILE'} --fit"),)


def needs_text(amounts: Mapping[str, Quantity], gpus: int) -> str:
    """Return what a run needs or holds, for people: `8 GPUs, 16 CPUs, 64 GiB`."""
    parts = []
    devices = gpus or (amounts[GPU].value() if GPU in amounts else 0)
    if devices:
        parts.append(f"{devices} GPU{'' if devices == 1 else 's'}")
    if "cpu" in amounts and amounts["cpu"] > Quantity():
        number = amount_text("cpu", str(amounts["cpu"]))
        parts.append(f"{number} CPU{'' if number == '1' else 's'}")
    if "memory" in amounts and amounts["memory"] > Quantity():
        parts.append(f"{amount_text('memory', str(amounts['memory']))} memory")
    others = [name for name in amounts if name not in _UNITS and amounts[name] > Quantity()]
    parts += [f"{amounts[name].value()} {name}" for name in others]
    return ", ".join(parts)


def freed_by(run: StoredRun, status: RunStatus) -> str:
    """Return what a run frees when its pods end."""
    return needs_text(waiting_of(run, status).demand, len(status.gpus))


def _total(running: Sequence[Running]) -> Usage:
    amounts: Usage = {}
    for each in running:
        for name, amount in each.amounts.items():
            amounts[name] = amounts.get(name, Quantity()) + amount
    return amounts


def _resources(amounts: Mapping[str, Quantity], gpus: tuple[str, ...]) -> Resources:
    cpu, memory = amounts.get("cpu", Quantity()), amounts.get("memory", Quantity())
    return Resources(cpu=cpu.milli_value() / 1000, memory=memory.value(), gpus=gpus)
