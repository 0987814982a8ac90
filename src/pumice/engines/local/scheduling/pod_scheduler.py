"""Who of a job has a place on this machine: room for what it wants, and GPUs by name.

The gang's room is kept for it from the start, so that it begins all at once or not at all; every other pod waits until
there is room. A pod that has finished makes room, for pods of this job and of others. One that was removed may come
back: if it is one of the gang, its room is kept again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pumice.engines.local.scheduling.fit import GPU, Fit, Row, amount_text, fit, wanted
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.reservations import Reservations, Reserved, total
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import Usage
from pumice.runtime.once import Once

# Other runs do not tell when they end; who waits looks again now and then.
LOOK_AGAIN: Final = 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    usage: Mapping[str, Quantity]
    gpus: tuple[str, ...] = ()


@dataclass(slots=True)
class PodScheduler:
    machine: Machine
    reservations: Reservations
    announce: Callable[[str], None] = lambda _message: None
    look_again: float = LOOK_AGAIN
    _gang: dict[str, Usage] = field(default_factory=dict)
    _kept: dict[str, Placement] = field(default_factory=dict)  # for pods of the gang that are not there yet
    _held: dict[str, Placement] = field(default_factory=dict)
    _finished: dict[str, Placement] = field(default_factory=dict)  # which they had, for when they come back
    _taken: Usage = field(default_factory=dict)  # what is kept and held, in all
    _published: Reserved = field(default_factory=Reserved)
    _announced: Once = field(default_factory=Once)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    def reserve(self, gang: Mapping[str, Manifest]) -> Fit:
        """Keep room for these pods, given by name with their specs, if there is enough for all of them."""
        self._gang = {pod: wanted(spec) for pod, spec in gang.items()}
        with self.reservations.turn():
            others = self.reservations.others()
            found = fit(list(self._gang.values()), self._free(others))
            if found.fits:
                for pod, usage in self._gang.items():
                    self._kept[pod] = self._new_placement(usage, others)
                self._publish()
        return found

    def reserved_by_others(self) -> Usage:
        with self.reservations.turn():
            return self._amounts(self.reservations.others())

    async def acquire(self, pod: str, spec: Manifest, waits: Callable[[], None]) -> None:
        """Returns when the pod has its place; `waits` is called if it has to wait for it."""
        usage = wanted(spec)
        while (lack := self._try(pod, usage)) is not None:
            waits()
            self._tell(pod, lack)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.look_again):
                    await self._freed.wait()

    def release(self, pod: str) -> None:
        """The pod has ended, and others may have its place."""
        place = self._held.pop(pod, None)
        if place is None:
            return
        self._finished[pod] = place
        if place.usage:
            for name, amount in place.usage.items():
                self._taken[name] -= amount
            self._in_turn(self._publish)
            # All that wait now are woken; who comes later looks for himself first.
            self._freed.set()
            self._freed.clear()

    def pod_removed(self, pod: str) -> None:
        """The pod is gone; if it is one of the gang and there is still room, it will find its place again."""
        self.release(pod)
        before = self._finished.pop(pod, None)
        if before is not None and pod in self._gang:
            self._in_turn(lambda: self._keep_again(pod, before))

    def gpus_of(self, pod: str) -> tuple[str, ...]:
        return self._held[pod].gpus if pod in self._held else ()

    def _tell(self, pod: str, lack: str) -> None:
        """Many pods may wait for the same: that is told once."""
        if self._announced.first(lack):
            self.announce(f"{pod} waits until there is room for it on this machine ({lack})")

    def _try(self, pod: str, usage: Usage) -> str | None:
        """None if the pod has a place now, else what is lacking."""
        if pod in self._held:
            return None
        if not usage or pod in self._kept:
            self._held[pod] = self._kept.pop(pod, Placement({}))
            return None
        with self.reservations.turn():
            others = self.reservations.others()
            found = fit([usage], self._free(others))
            if not found.fits:
                return _lack(found.rows)
            self._held[pod] = self._new_placement(usage, others)
            self._publish()
        return None

    def _free(self, others: list[Reserved]) -> Usage:
        """What is free, less what pods of this job have and what is kept for its gang."""
        free = self.machine.free(self._amounts(others))
        for name, amount in self._taken.items():
            free[name] = max(free.get(name, Quantity()) - amount, Quantity())
        return free

    def _amounts(self, others: list[Reserved]) -> Usage:
        """Of the GPUs, only those that this run can see are missing here."""
        amounts = total(others)
        gpus = {gpu for reserved in others for gpu in reserved.gpus if gpu in self.machine.gpus}
        return {**amounts, GPU: Quantity.parse(len(gpus))}

    def _new_placement(
        self, usage: Mapping[str, Quantity], others: list[Reserved], before: Iterable[str] = ()
    ) -> Placement:
        """With the GPUs that the pod had before, if they are still free; else the first ones that are."""
        taken = {gpu for reserved in others for gpu in reserved.gpus}
        taken.update(gpu for place in (*self._held.values(), *self._kept.values()) for gpu in place.gpus)
        wished = dict.fromkeys([*before, *self.machine.gpus]) if usage.get(GPU) else {}
        free = [gpu for gpu in wished if gpu in self.machine.gpus and gpu not in taken]
        for name, amount in usage.items():
            self._taken[name] = self._taken.get(name, Quantity()) + amount
        return Placement(usage, tuple(free[: usage.get(GPU, Quantity()).value()]))

    def _keep_again(self, pod: str, before: Placement) -> None:
        others = self.reservations.others() if before.usage else []
        if fit([before.usage], self._free(others)).fits:
            self._kept[pod] = self._new_placement(before.usage, others, before.gpus)
            self._publish()

    def _in_turn(self, work: Callable[[], None]) -> None:
        """For the end of a pod, which must not fail: where the disk is full, others find less room until we end."""
        with contextlib.suppress(OSError), self.reservations.turn():
            work()

    def _publish(self) -> None:
        """For other runs. Pods that want nothing cost nothing here, however many they are."""
        places = (*self._held.values(), *self._kept.values())
        amounts = {name: amount for name, amount in self._taken.items() if not amount.is_zero}
        reserved = Reserved(amounts, tuple(gpu for place in places for gpu in place.gpus))
        if reserved != self._published:
            self.reservations.reserve(reserved)
            self._published = reserved


def _lack(rows: Iterable[Row]) -> str:
    short = [row for row in rows if not row.short.is_zero]
    return ", ".join(
        f"{row.name}: {amount_text(row.name, row.wanted)} wanted, {amount_text(row.name, row.free)} free"
        for row in short
    )
