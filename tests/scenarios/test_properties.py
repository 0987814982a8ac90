"""Whatever happens to whatever job, in whatever order, while calls fail and the controller dies: it ends well.

A life is a random job and a random list of things that happen to it. Each single call of the controller is checked by
`WatchedEngine`, and what must hold at rest by `rest.check_rest`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from hypothesis import Phase, example, given, note, settings
from hypothesis import strategies as st

from pumice.engines.memory.engine import CallFailure
from pumice.model.job import Manifest
from pumice.model.snapshot import PodPhase
from tests.conftest import SOAK
from tests.scenarios.driver import Driver
from tests.scenarios.random_jobs import EXIT_CODES, JOB_ACTIONS, TARGETED, a_random_job
from tests.scenarios.rest import check_rest

ENDS = ((0, ""), (0, ""), *((code, "Error") for code in EXIT_CODES), (137, "OOMKilled"))
UNFINISHED = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.UNKNOWN)
GROUP_PHASES = ("Inqueue", "Running", "Unknown", "Pending", "")
FAILURES = (None, CallFailure.CONFLICT, CallFailure.NOT_DONE, CallFailure.DONE)
SECONDS = (0.5, 1, 5, 30, 61, 3600)


@dataclass(slots=True)
class Life:
    """What may happen; `number` chooses among the possibilities."""

    driver: Driver
    number: int = 0

    def some_pod(self, *phases: PodPhase, deleting: bool = False) -> str | None:
        names = [
            stored.seen.short_name
            for stored in self.driver.pods
            if stored.seen.phase in (phases or tuple(PodPhase)) and stored.seen.is_deleting == deleting
        ]
        return names[self.number % len(names)] if names else None

    # --- the pods

    def run_all(self) -> None:
        self.driver.run()

    def run_one(self) -> None:
        if name := self.some_pod(PodPhase.PENDING):
            self.driver.change(name, phase=PodPhase.RUNNING, ready=self.number % 3 > 0)

    def end_one(self) -> None:
        if name := self.some_pod(*UNFINISHED):
            self.driver.end(name, *ENDS[self.number % len(ENDS)])

    def succeed_all(self) -> None:
        self.driver.succeed()

    def lose_sight(self) -> None:
        if name := self.some_pod(PodPhase.RUNNING):
            self.driver.change(name, phase=PodPhase.UNKNOWN)

    def restart_container(self) -> None:
        if name := self.some_pod(PodPhase.RUNNING):
            self.driver.change(name, restarts=self.driver.pod(name).seen.restarts + 2)

    def evict(self) -> None:
        if name := self.some_pod():
            self.driver.evict(name)

    def remove_at_once(self) -> None:
        if name := self.some_pod():
            self.driver.gone(name)

    def end_while_deleting(self) -> None:
        if name := self.some_pod(PodPhase.RUNNING, PodPhase.PENDING, deleting=True):
            self.driver.end(name, *ENDS[self.number % len(ENDS)])

    def finish_deletion(self) -> None:
        if name := self.some_pod(deleting=True):
            self.driver.gone(name)

    # --- people and the cluster

    def command(self) -> None:
        actions = (*JOB_ACTIONS, *TARGETED, "SyncJob", "Nonsense")
        self.driver.command(actions[self.number % len(actions)])

    def resume(self) -> None:
        self.driver.command("ResumeJob")

    def scale(self) -> None:
        tasks = [task for task in self.driver.job.spec.tasks if task.partition_policy is None]
        if tasks:
            self.driver.scale(**{tasks[self.number % len(tasks)].name: self.number % 6})

    def suspend(self) -> None:
        self.driver.change_spec(suspend=not self.driver.job.spec.suspend)

    def group(self) -> None:
        self.driver.group_is(GROUP_PHASES[self.number % len(GROUP_PHASES)])

    def remove_object(self) -> None:
        there = self.driver.world.objects.get(self.driver.key, {})
        if there:
            del there[sorted(there)[self.number % len(there)]]
            self.driver.world.touch(self.driver.key)

    def remove_group(self) -> None:
        if self.driver.world.groups.pop(self.driver.key, None):
            self.driver.world.touch(self.driver.key)

    def provide_claim(self) -> None:
        self.driver.world.claims.add("shared")
        self.driver.world.touch(self.driver.key)

    def time_passes(self) -> None:
        self.driver.wait(SECONDS[self.number % len(SECONDS)])

    # --- the controller and its misfortunes

    def one_pass(self) -> None:
        self.driver.step()

    def crash(self) -> None:
        self.driver.crash_after = self.number % 8

    def restart_controller(self) -> None:
        self.driver.start_controller()

    def fail_calls(self) -> None:
        before, failure = self.number % 4, FAILURES[self.number // 4 % 4]
        self.driver.failures = [*itertools.repeat(None, before), *itertools.repeat(failure, 1 + self.number % 3)]

    def lose_notifications(self) -> None:
        """The watch broke: what it would have told is found by the list that follows."""
        self.driver.world.changed.clear()
        self.driver.loop.queue.add(self.driver.key)


# How often each happens beside the others.
WEIGHTS: dict[Callable[[Life], None], int] = {
    Life.run_all: 9,
    Life.run_one: 3,
    Life.end_one: 8,
    Life.succeed_all: 2,
    Life.lose_sight: 1,
    Life.restart_container: 2,
    Life.evict: 3,
    Life.remove_at_once: 2,
    Life.end_while_deleting: 2,
    Life.finish_deletion: 4,
    Life.command: 2,
    Life.resume: 1,
    Life.scale: 3,
    Life.suspend: 1,
    Life.group: 2,
    Life.remove_object: 1,
    Life.remove_group: 1,
    Life.provide_claim: 1,
    Life.time_passes: 4,
    Life.one_pass: 3,
    Life.crash: 2,
    Life.restart_controller: 1,
    Life.fail_calls: 2,
    Life.lose_notifications: 1,
}
# What happens, which of the possibilities, and whether the controller is given the time to deal with it.
Step = tuple[Callable[[Life], None], int, bool]


@dataclass(frozen=True, slots=True)
class Program:
    document: Manifest
    slow: bool
    gang: bool
    steps: tuple[Step, ...]

    @classmethod
    def of_seed(cls, seed: int) -> Program:
        chance = Random(seed)
        happenings = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=chance.randint(3, 50))
        steps = tuple((happening, chance.randrange(60), chance.random() < 0.7) for happening in happenings)
        return cls(a_random_job(chance), chance.random() < 0.5, chance.random() < 0.8, steps)

    def play(self) -> Driver:
        driver = Driver(self.document, slow=self.slow, gang=self.gang)
        driver.settle()
        life = Life(driver)
        for happening, number, settles in self.steps:
            if not driver.is_there:
                break
            life.number = number
            happening(life)
            if settles:
                driver.settle()
        driver.come_to_rest()
        check_rest(driver)
        return driver

    def fails(self) -> bool:
        try:
            self.play()
        except Exception:  # noqa: BLE001 - whatever it is, it must not happen
            return True
        return False

    def shortest(self) -> Program:
        """A program that still fails and of which no step can be left out."""
        program, position = self, 0
        while position < len(program.steps):
            shorter = replace(program, steps=program.steps[:position] + program.steps[position + 1 :])
            if shorter.fails():
                program = shorter
            else:
                position += 1
        return program

    def __str__(self) -> str:
        steps = [
            f"  {happening.__name__} {number}{' .' if settles else ''}" for happening, number, settles in self.steps
        ]
        return "\n".join((f"slow={self.slow} gang={self.gang}", str(self.document["spec"]), *steps))


@given(st.integers(0, 2**32))
@example(194304619)  # the answer to the removal of a Command is lost, and the status named that for good
@settings(max_examples=4000 if SOAK else 150, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_any_life_ends_well(seed: int) -> None:
    program = Program.of_seed(seed)
    if program.fails():
        shortest = program.shortest()
        note(str(shortest))
        shortest.play()
