"""Decides which waiting runs start now on this machine, and why the others wait. Pure: any process may evaluate it.

Order: priority, then arrival. A gang starts all at once or not at all; further pods of an elastic job queue behind the
gangs of equal or higher priority, and take nothing that those lack. There is no preemption.

A later run that fits may pass a run that does not, for `patience` after that run was first held. Then the machine
drains for it. A later run starts only if it cannot delay it: it takes nothing of what that run lacks and leaves its
demand of every other resource, or every run that blocks it has a bound and the later run ends before its start by these
bounds. So a run waits at most for its patience, and then for the runs, or bounds, that were active then. Every run that
ran out of patience is protected, not only the first: runs that are harmless to the first could always pass the
second. A run that would not fit even if all others ended does not drain: other programs hold what it lacks.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pumice.diagnosis.why import OTHER_PROGRAMS, Hint, Holder, Shortage, Why, WhyCode
from pumice.engines.local.scheduling.machine import Machine
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, Usage, sum_usage

PATIENCE: Final = dt.timedelta(minutes=10)
_ZERO: Final = Quantity()


class PodSet(Struct, frozen=True):
    """Pods of one task that request the same."""

    task: str
    count: int
    requests: Mapping[str, Quantity]


class Waiting(Struct, frozen=True, kw_only=True):
    name: str  # the run (`sweep:7`), or a further pod of an elastic job (`ddp:3/worker-4`)
    pods: tuple[PodSet, ...]  # start all at once or not at all
    arrival: int  # a sequence number: the clock may be set
    priority: int = 0
    extra: bool = False  # a pod beyond the gang of a run that runs already
    scalable: bool = True  # with fewer pods it would still work
    gpus: tuple[str, ...] | None = None  # the devices that its submitter sees; None if those of the machine
    bound: dt.timedelta | None = None  # it ends at most this long after its start
    held_since: dt.datetime | None = None  # when it was first held

    @property
    def demand(self) -> Usage:
        return sum_usage((pods.requests, pods.count) for pods in self.pods)


class Running(Struct, frozen=True, kw_only=True):
    name: str
    amounts: Mapping[str, Quantity]  # that it has reserved; of GPUs, `gpus` counts
    gpus: tuple[str, ...] = ()
    ends_by: dt.datetime | None = None  # at the latest; None if it has no bound


class Start(Struct, frozen=True):
    gpus: tuple[str, ...] = ()


class Hold(Struct, frozen=True):
    why: Why


class Refuse(Struct, frozen=True):
    """It does not fit the empty machine."""

    short: tuple[Shortage, ...]


Decision: TypeAlias = Start | Hold | Refuse


def plan(
    waiting: Iterable[Waiting],
    running: Iterable[Running],
    machine: Machine,
    now: dt.datetime,
    patience: dt.timedelta = PATIENCE,
) -> dict[str, Decision]:
    """Return a decision for every waiting run, by name, in the order of the queue."""
    # What uses a GPU that a run holds belongs to that run.
    running = tuple(running)
    gpus = {gpu for run in running for gpu in run.gpus}
    others = {gpu: text for gpu, text in machine.gpu_programs.items() if gpu not in gpus}
    room = _Room.of(replace(machine, gpu_programs=others), running)
    decisions: dict[str, Decision] = {}
    held: list[Waiting] = []
    for each in sorted(waiting, key=lambda run: (-run.priority, run.extra, run.arrival, run.name)):
        if never := _short(each, room.capacity(each)):
            decisions[each.name] = Refuse(tuple(room.refusal(each, name) for name in never))
            continue
        short = _short(each, room.free(each))
        behind = None if short else _blocked_by(each, held, room, now, patience)
        if not short and behind is None:
            started = room.started(each, now)
            room = room.plus(started)
            decisions[each.name] = Start(started.gpus)
            continue
        held.append(each)
        since, code = each.held_since or now, WhyCode.RESOURCES
        if behind is not None:
            code = WhyCode.DRAINING if _expired(behind, now, patience) else WhyCode.ORDER
        why = Why(
            run=each.name,
            code=code,
            since=since,
            position=len(held),
            drains_at=since + patience if not each.extra and room.draining_helps(each) else None,
            behind=None if behind is None else behind.name,
            short=tuple(room.shortage(each, name) for name in short),
            hints=tuple(_hints(each, behind, room.free(each))),
        )
        decisions[each.name] = Hold(why)
    return decisions


def _expired(waiting: Waiting, now: dt.datetime, patience: dt.timedelta) -> bool:
    return waiting.held_since is not None and now - waiting.held_since >= patience


def _short(waiting: Waiting, free: Mapping[str, Quantity]) -> list[str]:
    """Return the resources of which it wants more than is free."""
    return [name for name, amount in waiting.demand.items() if amount > free.get(name, _ZERO)]


def _blocked_by(
    each: Waiting, held: Sequence[Waiting], room: _Room, now: dt.datetime, patience: dt.timedelta
) -> Waiting | None:
    """Return the first held run that `each`, which fits, must not pass; None if there is none."""
    for ahead in held:
        # Further pods of an elastic job pass no gang that they could delay, and hold no run back.
        guarded = not ahead.extra and (each.extra or _expired(ahead, now, patience))
        if not guarded or not room.draining_helps(ahead):
            continue
        # `ahead` starts no later because `each` starts now: it lacks the same, or `each` ends before it could start.
        before, after = room.free(ahead), room.plus(room.started(each, now)).free(ahead)
        lacked = _short(ahead, before)
        if _short(ahead, after) != lacked or not all(before.get(name) == after.get(name) for name in lacked):
            start = room.start_by_bounds(ahead, lacked, now)
            if start is None or each.bound is None or now + each.bound >= start:
                return ahead
    return None


def _hints(each: Waiting, behind: Waiting | None, free: Mapping[str, Quantity]) -> Iterator[Hint]:
    """Yield what the user could do: look at the run ahead, or start with fewer pods."""
    if behind is not None:
        yield Hint(f"{behind.name} is ahead of it", f"pumice why {behind.name}")
    elif not each.extra and each.scalable:
        # As many pods of the largest task as fit beside all pods of the others.
        largest = max(each.pods, key=lambda pods: pods.count)
        others = sum_usage((pods.requests, pods.count) for pods in each.pods if pods is not largest)
        left = {name: free.get(name, _ZERO) - others.get(name, _ZERO) for name in {**others, **largest.requests}}
        rooms = [left[name].nanos // amount.nanos for name, amount in largest.requests.items() if not amount.is_zero]
        count = 0 if any(amount.is_negative for amount in left.values()) else min(rooms, default=0)
        if 0 < count < largest.count:
            names = largest.task if largest.task.endswith("s") else f"{largest.task}s"
            text = f"{count} of {largest.count} {names} {'fits' if count == 1 else 'fit'} now"
            yield Hint(text, f"pumice scale {each.name} {largest.task}={count}")


class _Room(Struct, frozen=True):
    """The machine with the runs on it. The available memory of the machine lacks what these runs use."""

    machine: Machine
    running: tuple[Running, ...]
    taken: Mapping[str, Quantity]

    @staticmethod
    def of(machine: Machine, running: tuple[Running, ...]) -> _Room:
        taken = sum_usage((run.amounts, 1) for run in running)
        return _Room(machine, running, {name: amount for name, amount in taken.items() if name != GPU})

    def plus(self, run: Running) -> _Room:
        memory = self.machine.memory - run.amounts.get("memory", _ZERO).value()
        return _Room.of(replace(self.machine, memory=max(0, memory)), (*self.running, run))

    def without(self, runs: Sequence[Running]) -> _Room:
        memory = self.machine.memory + sum(run.amounts.get("memory", _ZERO).value() for run in runs)
        rest = tuple(run for run in self.running if run not in runs)
        return _Room.of(replace(self.machine, memory=memory), rest)

    def capacity(self, waiting: Waiting) -> Usage:
        """Return what the empty machine has for it."""
        return {**self.machine.capacity(), GPU: Quantity.parse(len(self._visible(waiting)))}

    def free(self, waiting: Waiting) -> Usage:
        return {**self.machine.free(self.taken), GPU: Quantity.parse(len(self._free_gpus(waiting)))}

    def draining_helps(self, waiting: Waiting) -> bool:
        """Check whether it would fit if all runs ended."""
        return not _short(waiting, self.without(self.running).free(waiting))

    def started(self, waiting: Waiting, now: dt.datetime) -> Running:
        """Return what the run is when it starts now, which it has room for."""
        demand = waiting.demand
        gpus = self._free_gpus(waiting)[: demand.get(GPU, _ZERO).value()]
        ends_by = None if waiting.bound is None else now + waiting.bound
        return Running(name=waiting.name, amounts=demand, gpus=gpus, ends_by=ends_by)

    def start_by_bounds(self, waiting: Waiting, lacked: Sequence[str], now: dt.datetime) -> dt.datetime | None:
        """Return when it starts if every run that blocks it ends at its bound; None if one has no bound."""
        blockers = [run for run in self.running if any(self._held(run, name, waiting) > _ZERO for name in lacked)]
        bounds = [(run.ends_by, run) for run in blockers if run.ends_by is not None]
        if len(bounds) < len(blockers):
            return None
        room = self
        for end, run in sorted(bounds, key=lambda bound: bound[0]):
            room = room.without([run])
            if not _short(waiting, room.free(waiting)):
                return max(end, now)
        return None

    def shortage(self, waiting: Waiting, name: str) -> Shortage:
        free, capacity = self.free(waiting).get(name, _ZERO), self.capacity(waiting).get(name, _ZERO)
        amounts = [(self._held(run, name, waiting), run) for run in self.running]
        amounts.sort(key=lambda amount: (-amount[0].nanos, amount[1].name))
        held_by = [Holder(run=run.name, amount=str(held), ends_by=run.ends_by) for held, run in amounts if held > _ZERO]
        if name == GPU:
            programs = [self.machine.gpu_programs.get(gpu) for gpu in self._visible(waiting)]
            held_by += [Holder(run=None, amount="1", program=text) for text in programs if text is not None]
        elif name == "memory":
            others = capacity - free - self.taken.get(name, _ZERO)
            held_by += [Holder(run=None, amount=str(others), program=OTHER_PROGRAMS)] if others > _ZERO else []
        wanted = str(waiting.demand[name])
        return Shortage(resource=name, wanted=wanted, free=str(free), capacity=str(capacity), held_by=tuple(held_by))

    def refusal(self, waiting: Waiting, name: str) -> Shortage:
        wanted, capacity = str(waiting.demand[name]), str(self.capacity(waiting).get(name, _ZERO))
        return Shortage(resource=name, wanted=wanted, free=capacity, capacity=capacity)

    def _held(self, run: Running, name: str, waiting: Waiting) -> Quantity:
        """Return how much of the resource a run holds, of what the waiting one could use."""
        if name == GPU:
            return Quantity.parse(len(set(run.gpus) & set(self._visible(waiting))))
        return run.amounts.get(name, _ZERO)

    def _visible(self, waiting: Waiting) -> tuple[str, ...]:
        return self.machine.gpus if waiting.gpus is None else waiting.gpus

    def _free_gpus(self, waiting: Waiting) -> tuple[str, ...]:
        busy = {*self.machine.gpu_programs, *(gpu for run in self.running for gpu in run.gpus)}
        return tuple(gpu for gpu in self._visible(waiting) if gpu not in busy)
