"""Properties of the queue, on random runs in virtual time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pumice.diagnosis.why import WhyCode
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import PATIENCE, Decision, Hold, PodSet, Refuse, Running, Start, Waiting, plan
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, sum_usage

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
GPUS = ("0", "1", "2")
MACHINE = Machine((0, 1, 2, 3), 4, 8, GPUS, 8)


@dataclass(frozen=True, slots=True)
class Case:
    """A run: when it comes, and how long it takes once it has started."""

    waiting: Waiting
    comes: dt.datetime
    takes: dt.timedelta


@dataclass(slots=True)
class Life:
    case: Case
    held: dt.datetime | None = None
    started: dt.datetime | None = None
    running: Running | None = None

    @property
    def end(self) -> dt.datetime:
        assert self.started is not None
        return self.started + self.case.takes

    @property
    def latest_end(self) -> dt.datetime:
        """When it ends as far as the queue knows: by its bound, or when it did."""
        assert self.running is not None
        return self.running.ends_by or self.end

    def active_at(self, moment: dt.datetime) -> bool:
        return self.started is not None and self.started <= moment < self.end


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Draw runs that mostly compete for the machine; some are equal, some never fit, some have a bound."""
    found: list[Case] = []
    shapes = st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 4), st.integers(0, 1))
    for number in range(draw(st.integers(1, 12))):
        count, cpu, memory, gpu = draw(shapes)
        amounts = {"cpu": cpu, "memory": memory, GPU: gpu}
        requests = {name: Quantity.parse(amount) for name, amount in amounts.items() if amount}
        takes = draw(st.integers(1, 40)) * MINUTE
        waiting = Waiting(
            name=f"run:{number}",
            pods=(PodSet("worker", count, requests),),
            arrival=number,
            priority=draw(st.sampled_from((0, 0, 0, 1))),
            gpus=draw(st.sampled_from((None, None, ("0", "1"), ("2",)))),
            bound=draw(st.sampled_from((None, takes, takes + 10 * MINUTE))),
        )
        comes = (found[-1].comes if found else BEGIN) + draw(st.sampled_from((0, 0, 1, 5))) * MINUTE
        found.append(Case(waiting, comes, takes))
    return found


@dataclass(slots=True)
class Simulation:
    """Starts what `plan` starts, at every moment at which anything changes, until nothing more happens."""

    lives: list[Life]
    refused: set[str] = field(default_factory=set)
    plans: list[tuple[dt.datetime, list[Running], dict[str, Decision]]] = field(default_factory=list)

    def run(self) -> None:
        now = BEGIN
        while True:
            self._plan(now)
            later = [moment for moment in self._moments() if moment > now]
            if not later:
                return
            now = min(later)

    def _moments(self) -> Iterator[dt.datetime]:
        for life in self.lives:
            yield life.case.comes
            if life.started is not None:
                yield life.end
            elif life.held is not None:
                yield life.held + PATIENCE

    def _plan(self, now: dt.datetime) -> None:
        waiting = [
            life
            for life in self.lives
            if life.case.comes <= now and life.started is None and life.case.waiting.name not in self.refused
        ]
        running = [life.running for life in self.lives if life.active_at(now) and life.running is not None]
        values = [replace(life.case.waiting, held_since=life.held) for life in waiting]
        # The available memory of the machine lacks what runs use.
        used = sum(run.amounts.get("memory", Quantity()).value() for run in running)
        decisions = plan(values, running, replace(MACHINE, memory=8 - used), now)
        self.plans.append((now, running, decisions))
        for life in waiting:
            match decisions[life.case.waiting.name]:
                case Start(gpus):
                    bound = life.case.waiting.bound
                    life.started = now
                    life.running = Running(
                        name=life.case.waiting.name,
                        amounts=life.case.waiting.demand,
                        gpus=gpus,
                        ends_by=None if bound is None else now + bound,
                    )
                case Hold(why):
                    assert why.since == (life.held or now)
                    life.held = why.since
                case Refuse():
                    self.refused.add(life.case.waiting.name)


def simulated(found: list[Case]) -> Simulation:
    simulation = Simulation([Life(case) for case in found])
    simulation.run()
    return simulation


def rank(life: Life) -> tuple[int, int]:
    return (-life.case.waiting.priority, life.case.waiting.arrival)


@given(cases())
def test_never_overcommits_and_never_splits_a_gang(found: list[Case]) -> None:
    simulation = simulated(found)
    for life in simulation.lives:
        if life.started is None or life.running is None:
            continue
        wanted, moment = life.case.waiting, life.started
        beside = [each.running for each in simulation.lives if each.active_at(moment) and each.running is not None]
        total = sum_usage((run.amounts, 1) for run in beside)
        gpus = [gpu for run in beside for gpu in run.gpus]
        assert total.get("cpu", Quantity()) <= Quantity.parse(4)
        assert total.get("memory", Quantity()) <= Quantity.parse(8)
        assert len(gpus) == len(set(gpus))
        assert set(life.running.gpus) <= set(wanted.gpus or GPUS)
        assert len(life.running.gpus) == wanted.demand.get(GPU, Quantity()).value()


@given(cases())
def test_every_run_that_fits_the_empty_machine_starts(found: list[Case]) -> None:
    simulation = simulated(found)
    for life in simulation.lives:
        demand, visible = life.case.waiting.demand, life.case.waiting.gpus or GPUS
        capacity = {"cpu": 4, "memory": 8, GPU: len(visible)}
        fits = all(amount <= Quantity.parse(capacity[name]) for name, amount in demand.items())
        assert (life.started is not None) == fits
        assert (life.case.waiting.name in simulation.refused) == (not fits)


@given(cases())
def test_keeps_the_order_among_equals(found: list[Case]) -> None:
    lives = simulated(found).lives
    for index, first in enumerate(lives):
        for second in lives[index + 1 :]:
            one = replace(first.case.waiting, name="", arrival=0)
            if one == replace(second.case.waiting, name="", arrival=0) and second.started is not None:
                assert first.started is not None
                assert first.started <= second.started


@given(cases())
def test_waits_at_most_for_its_patience_and_the_runs_that_were_active_then(found: list[Case]) -> None:
    lives = simulated(found).lives
    for life in lives:
        if life.held is None or life.started is None:
            continue
        patience_ends = life.held + PATIENCE
        ahead = [each for each in lives if rank(each) < rank(life) and each.started is not None]
        if any(each.started is not None and each.started >= patience_ends for each in ahead):
            continue  # those ahead of it come first; it waits for them too
        active = [each.latest_end for each in lives if each is not life and each.active_at(patience_ends)]
        assert life.started <= max([patience_ends, *active])


@given(cases())
def test_a_run_waits_only_for_a_reason(found: list[Case]) -> None:
    for _, running, decisions in simulated(found).plans:
        names = {run.name for run in running} | {name for name, each in decisions.items() if isinstance(each, Start)}
        holds = [each.why for each in decisions.values() if isinstance(each, Hold)]
        assert [why.position for why in holds] == list(range(1, len(holds) + 1))
        for why in holds:
            assert bool(why.short) == (why.code is WhyCode.RESOURCES)
            for short in why.short:
                assert Quantity.parse(short.wanted) > Quantity.parse(short.free)
                assert {holder.run for holder in short.held_by} <= names
                assert short.held_by
            if why.behind is not None:
                assert why.behind in [each.run for each in holds[: (why.position or 0) - 1]]


@given(cases())
def test_the_order_in_which_runs_are_listed_does_not_matter(found: list[Case]) -> None:
    for now, running, decisions in simulated(found).plans:
        waiting = [case.waiting for case in found if case.waiting.name in decisions]
        machine = replace(MACHINE, memory=8)
        forward, backward = (plan(each, running, machine, now) for each in (waiting, waiting[::-1]))
        assert list(forward.items()) == list(backward.items())
