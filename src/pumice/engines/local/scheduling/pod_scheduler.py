"""Decides when a pod may start on this machine, and which GPUs it gets.

Resources for the gang are reserved from the start, so that it starts all at once or not at all; every other pod waits
until there is room. A finished pod releases its resources, for pods of this job and of others. A pod that is removed
may be created again: if it belongs to the gang, its resources are reserved again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from pumice.engines.local.scheduling.fit import Fit, fit, pod_requests
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.reservations import Reservation, Reservations
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, Usage, sum_usage
from pumice.model.units import amount_text
from pumice.runtime.once import Once

# Nothing announces the end of another run, so a waiting pod checks again.
RETRY_INTERVAL: Final = 1.0


class PodScheduler(Struct):
    machine: Machine
    reservations: Reservations
    announce: Callable[[str], None] = lambda _message: None
    retry_interval: float = RETRY_INTERVAL
    # Why a pod beyond the gang, which fits, has to wait for other runs; empty if it need not.
    queued_behind: Callable[[str, Usage], str] = lambda _pod, _usage: ""
    _gang: dict[str, Usage] = field(default_factory=dict)
    _reserved: dict[str, Reservation] = field(default_factory=dict)  # for pods of the gang that have not started
    _held: dict[str, Reservation] = field(default_factory=dict)
    _finished: dict[str, Reservation] = field(default_factory=dict)  # what finished pods held
    _taken: Usage = field(default_factory=dict)  # the sum over _reserved and _held
    _published: Reservation = field(default_factory=Reservation)
    _announced: Once = field(default_factory=Once)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def reserve(self, gang: Mapping[str, Manifest], gpus: Iterable[str] = ()) -> Fit:
        """Reserve resources for these pods (specs by name) if there is room for all, with these GPUs if they are free.

        The caller has locked the reservations.
        """
        self._gang = {pod: pod_requests(spec) for pod, spec in gang.items()}
        others = self.reservations.others()
        found = fit(list(self._gang.values()), self._free(others))
        if found.fits:
            for pod, usage in self._gang.items():
                self._reserved[pod] = self._take(usage, others, gpus)
            self._publish()
        return found

    async def acquire(self, pod: str, spec: Manifest, waits: Callable[[], None]) -> None:
        """Return when the pod has its resources; call `waits` each time it has to wait for them."""
        usage = pod_requests(spec)
        while (shortage := self._try(pod, usage)) is not None:
            waits()
            # Many pods may wait for the same resources.
            if self._announced.first(shortage):
                self.announce(f"{pod} waits until there is room for it on this machine ({shortage})")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.retry_interval):
                    await self._freed.wait()

    def release(self, pod: str) -> None:
        """Make the resources of a finished pod available to others."""
        placement = self._held.pop(pod, None)
        if placement is None:
            return
        self._finished[pod] = placement
        if placement.amounts:
            for name, amount in placement.amounts.items():
                self._taken[name] -= amount
            # The end of a pod must not fail: with a full disk, other runs see too large a reservation until we end.
            with contextlib.suppress(OSError), self.reservations.locked():
                self._publish()
            # Wakes all pods that wait now; later ones try first.
            self._freed.set()
            self._freed.clear()

    def pod_removed(self, pod: str) -> None:
        """Release the pod; if it belongs to the gang and there is still room, reserve its resources again."""
        self.release(pod)
        before = self._finished.pop(pod, None)
        if before is not None and pod in self._gang:
            with contextlib.suppress(OSError), self.reservations.locked():
                others = self.reservations.others() if before.amounts else []
                if fit([before.amounts], self._free(others)).fits:
                    self._reserved[pod] = self._take(before.amounts, others, before.gpus)
                    self._publish()

    def gpus_of(self, pod: str) -> tuple[str, ...]:
        return self._held[pod].gpus if pod in self._held else ()

    def _try(self, pod: str, usage: Usage) -> str | None:
        """Return None if the pod has its resources now, else what is short."""
        if pod in self._held:
            return None
        if not usage or pod in self._reserved:
            self._held[pod] = self._reserved.pop(pod, Reservation())
            return None
        with self.reservations.locked():
            others = self.reservations.others()
            found = fit([usage], self._free(others))
            if not found.fits:
                return ", ".join(
                    f"{row.name}: {amount_text(row.name, row.requested)} wanted, {amount_text(row.name, row.free)} free"
                    for row in found.rows
                    if not row.short.is_zero
                )
            if pod not in self._gang and (behind := self.queued_behind(pod, usage)):
                return behind
            self._held[pod] = self._take(usage, others)
            self._publish()
        return None

    def _free(self, others: list[Reservation]) -> Usage:
        """Return what is free: of the machine's resources, those that neither other runs nor this job have taken."""
        # Other runs may hold GPUs that this run cannot see.
        gpus = {gpu for other in others for gpu in other.gpus if gpu in self.machine.gpus}
        free = self.machine.free({**sum_usage((each.amounts, 1) for each in others), GPU: Quantity.parse(len(gpus))})
        for name, amount in self._taken.items():
            free[name] = max(free.get(name, Quantity()) - amount, Quantity())
        return free

    def _take(
        self, usage: Mapping[str, Quantity], others: list[Reservation], preferred: Iterable[str] = ()
    ) -> Reservation:
        """Take the resources, with the preferred GPUs if they are free, else the first free ones."""
        taken = {gpu for other in others for gpu in other.gpus}
        taken.update(gpu for each in (*self._held.values(), *self._reserved.values()) for gpu in each.gpus)
        candidates = dict.fromkeys([*preferred, *self.machine.gpus]) if usage.get(GPU) else {}
        free = [gpu for gpu in candidates if gpu in self.machine.gpus and gpu not in taken]
        for name, amount in usage.items():
            self._taken[name] = self._taken.get(name, Quantity()) + amount
        return Reservation(usage, tuple(free[: usage.get(GPU, Quantity()).value()]))

    def _publish(self) -> None:
        """Write this run's reservation for other runs, if it changed: pods without requests cost nothing."""
        placements = (*self._held.values(), *self._reserved.values())
        amounts = {name: amount for name, amount in self._taken.items() if not amount.is_zero}
        reservation = Reservation(amounts, tuple(gpu for placement in placements for gpu in placement.gpus))
        if reservation != self._published:
            self.reservations.reserve(reservation)
            self._published = reservation
