"""What this machine has, what runs hold of it, and which runs wait for it: read at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pumice.client.backend import Node
from pumice.client.local.run_reader import RunReader
from pumice.client.observer import Capacity, Holding, PodAddress, WaitingRun
from pumice.engines.local.network.addresses import Addresses, AddressesExhaustedError
from pumice.engines.local.plain_processes.loopback_names import Translation
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.reservations import reservations_directory, turn
from pumice.engines.local.scheduling.run_queue import (
    RunQueue,
    active_runs,
    machine_for,
    read_queue,
    why_of,
)
from pumice.model.resources import sum_usage
from pumice.model.slot import slots
from pumice.store.files.run_store import StoredRun
from pumice.store.files.state_directory import host_name
from pumice.store.history.run_history import RunHistory
from pumice.store.options import Isolation
from pumice.store.run_record import RunStatus

_FRESH: Final = 2.0  # seconds
_MACHINE_FRESH: Final = 30.0  # asking for GPUs may start a program


@dataclass(slots=True)
class CapacityReader:
    reader: RunReader
    clock: Callable[[], float] = time.monotonic
    _machine: Machine | None = None
    _machine_read: float = float("-inf")
    _capacity: Capacity | None = None
    _read: float = float("-inf")

    def forget(self) -> None:
        """Read again at the next call, because something has changed."""
        self._read = float("-inf")

    def read(self) -> Capacity:
        now = self.clock()
        if self._capacity is None or now - self._read > _FRESH:
            with turn(reservations_directory(self.reader.store.state)):
                runs = active_runs(self.reader.store)
                queue = read_queue(self.reader.store, runs)
            self._read, age = now, now - self._machine_read
            if self._machine is None or age > (_FRESH if queue.waiting else _MACHINE_FRESH):
                self._machine, self._machine_read = machine_for(queue.values()), now
            self._capacity = self._read_capacity(queue, runs, self._machine)
        return self._capacity

    def _read_capacity(
        self, queue: RunQueue, runs: Sequence[tuple[StoredRun, RunStatus]], machine: Machine
    ) -> Capacity:
        uids = {run.ref: run.record.uid for run, _ in runs}
        now = self.reader.now()
        waiting = {}
        for uid, (run, decision) in (queue.decide(machine, now) if queue.waiting else {}).items():
            demand, why = queue.waiting[uid][1], why_of(run, decision, run.status().held or now)
            waiting[uid] = WaitingRun(run.ref, uid, demand.demand, sum(each.count for each in demand.pods), why)
        return Capacity(
            host=host_name(),
            total=machine.capacity(),
            free=machine.free(sum_usage((each.amounts, 1) for each in queue.running)),
            gpus=machine.gpus,
            holdings=[
                Holding(each.name, uids.get(each.name, ""), each.amounts, each.gpus, each.ends_by)
                for each in queue.running
            ],
            waiting=waiting,
            active={run.ref: (run.record.uid, status) for run, status in runs},
        )


def this_machine(reader: RunReader) -> Node:
    """Return this machine as a node; what runs hold is not free."""
    found = CapacityReader(reader).read()
    total, free = ({name: str(amount) for name, amount in each.items()} for each in (found.total, found.free))
    return Node(found.host, ready=True, schedulable=True, total=total, free=free)


def pod_addresses(history: RunHistory, pods: Sequence[str]) -> dict[str, PodAddress]:
    """Return the addresses of pods; those that are plain processes have their own on loopback."""
    addresses = Addresses(slot.short_name for slot in slots(history.job))
    plain = history.record.options.get("isolation") == Isolation.PROCESS
    found = {}
    for pod in pods:
        address = ""
        with suppress(AddressesExhaustedError):
            address = addresses.of(pod)
        if plain and address:
            address = Translation().loopback(address)
        found[pod] = PodAddress(history.record.host, address)
    return found
