"""Two controllers work on one job, each on views that the other has made outdated: the job ends as with one.

Both are stopped before each of their calls; who goes on is said by a pattern, or by the test that lets one sleep over
all that the other does.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pumice.model.job import JobStatus
from pumice.model.snapshot import JobKey, Snapshot
from pumice.reconcile.decision import EngineCommand
from pumice.runtime.loop import Loop
from tests.conftest import SOAK, seed
from tests.scenarios.crash_stories import STORIES, Story
from tests.scenarios.driver import CONTEXT, MOST_PASSES, Driver
from tests.scenarios.rest import check_rest
from tests.scenarios.test_crash_points import outcome, phases
from tests.scenarios.watched import WatchedEngine


@types.coroutine
def pause() -> Generator[None]:
    yield


@dataclass(slots=True)
class PausingEngine(WatchedEngine):
    """Waits before each call that changes something, for as long as it is not sent on."""

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        await pause()
        await WatchedEngine.write_status(self, snapshot, status)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        await pause()
        await WatchedEngine.apply(self, key, command)


@dataclass(slots=True)
class Controller:
    loop: Loop
    work: Coroutine[Any, Any, bool] | None = None

    def go_on(self) -> bool:
        """Up to the next call; whether there was anything to do."""
        if self.work is None:
            self.work = self.loop.serve_next()
        try:
            self.work.send(None)
        except StopIteration as stop:
            self.work = None
            return bool(stop.value)
        return True


@dataclass(slots=True)
class TwoControllers(Driver):
    """A driver whose job is served by two; `turns` says whose turn it is, call by call."""

    turns: Iterator[int] = field(default_factory=lambda: itertools.cycle((0, 1)))
    sleeper: int | None = None  # after how many calls the first one falls asleep
    asleep: bool = False
    naps: int = 0
    controllers: list[Controller] = field(default_factory=list)

    def __post_init__(self) -> None:
        Driver.__post_init__(self)
        self.engine = PausingEngine(self.world, gang=self.gang, strict=False, on_deleting=self._deleting)
        self.controllers = [self._controller(), self._controller()]

    def _controller(self) -> Controller:
        loop = Loop(self.engine, CONTEXT, self.world.clock)
        loop.queue.add(self.key)
        return Controller(loop)

    def start_controller(self) -> None:
        """Only the last pass of `check_rest` is made by a single one."""
        Driver.start_controller(self)
        self.controllers = [Controller(self.loop)]
        self.asleep = False

    def settle(self) -> None:
        idle: set[int] = set()
        for _ in range(MOST_PASSES * 10):
            if self.world.changed:
                idle.clear()
            for controller in self.controllers:
                for key in self.world.changed:
                    controller.loop.queue.add(key)
            self.world.changed.clear()
            awake = [number for number in range(len(self.controllers)) if number or not self.asleep]
            busy = [number for number in awake if number not in idle]
            if not busy:
                return
            turn = next(self.turns)
            turn = turn if turn in busy else busy[0]
            if self.controllers[turn].go_on():
                idle.discard(turn)
            else:
                idle.add(turn)
            self._maybe_fall_asleep()
        raise AssertionError(f"no rest: {self.shown()}")

    def wake_up(self) -> None:
        self.asleep = False
        self.settle()

    def come_to_rest(self) -> None:
        self.wake_up()
        for controller in self.controllers:
            self.loop = controller.loop
            Driver.come_to_rest(self)

    def _maybe_fall_asleep(self) -> None:
        if self.sleeper is not None and self.engine.calls >= self.sleeper and self.controllers[0].work is not None:
            self.asleep, self.sleeper, self.naps = True, None, self.naps + 1


def expected_of(story: Story) -> dict[str, object]:
    return outcome(story.record(Driver(story.document, slow=story.slow)))


PATTERNS: Sequence[tuple[int, ...]] = ((0, 1), (0, 0, 1), (0, 1, 1), (0, 0, 0, 1, 1), (0, 1, 1, 1, 1, 1, 0))
SHORT = PATTERNS if SOAK else PATTERNS[1:3]


@pytest.mark.parametrize("pattern", [pytest.param(pattern, id="".join(map(str, pattern))) for pattern in SHORT])
@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
def test_two_that_alternate_end_as_one(story: Story, pattern: tuple[int, ...]) -> None:
    driver = TwoControllers(story.document, slow=story.slow, turns=itertools.cycle(pattern))
    story.record(driver)
    assert outcome(driver) == expected_of(story)
    check_rest(driver)


@pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])
def test_one_that_slept_over_a_step_does_no_harm(story: Story, record_property: Callable[[str, object], None]) -> None:
    """The first one stops before a call, each in turn, and makes it when the other has done the next step alone."""
    expected = expected_of(story)
    alone = story.record(Driver(story.document, slow=story.slow))
    calls = range(0 if SOAK else seed() % 8, alone.engine.calls, 1 if SOAK else 8)
    for call in calls:
        driver = TwoControllers(story.document, slow=story.slow, sleeper=call, turns=itertools.repeat(0))
        driver.settle()
        for step in story.steps:
            slept = driver.asleep
            step(driver)
            driver.settle()
            if slept:
                driver.wake_up()
        assert driver.naps == 1
        found = outcome(driver)
        assert found == expected, f"asleep before call {call + 1}: {phases(driver) if driver.is_there else ''}"
        check_rest(driver)
    record_property("outdated views", len(calls))
