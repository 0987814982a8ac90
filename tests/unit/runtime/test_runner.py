"""The runner in real time, over an engine that only counts."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pumice.model.snapshot import JobKey
from pumice.runtime.loop import Loop
from pumice.runtime.ports import Engine
from pumice.runtime.queue import KeyQueue
from pumice.runtime.runner import Runner
from tests.builders import a_context
from tests.patience import PATIENCE

A, B = JobKey("lab", "a"), JobKey("lab", "b")


@dataclass
class Counting:
    """Knows no job; every pass over a key is noted."""

    passes: list[JobKey] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    meanwhile: Callable[[JobKey], Coroutine[Any, Any, None]] | None = None
    queue: KeyQueue = field(default_factory=KeyQueue)

    def change(self, *keys: JobKey) -> None:
        for key in keys:
            self.queue.add(key)

    async def observe(self, key: JobKey) -> None:
        self.passes.append(key)
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        try:
            if self.meanwhile is not None:
                await self.meanwhile(key)
        finally:
            self.busy -= 1


def a_loop(engine: Counting, clock: Callable[[], dt.datetime]) -> Loop:
    return Loop(cast(Engine, engine), a_context(), clock, queue=engine.queue)


def real_clock() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - a runner runs in real time


def run(story: Callable[[Counting], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await story(Counting())

    asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.001)


async def stop(running: asyncio.Task[None]) -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_keys_are_served_as_they_come() -> None:
    async def story(engine: Counting) -> None:
        running = asyncio.create_task(Runner(a_loop(engine, real_clock)).run())
        for key in (A, B, A):
            engine.change(key)
            count = len(engine.passes)
            await until(lambda count=count: len(engine.passes) > count)  # type: ignore[misc] # mypy does not infer a default's type
        assert engine.passes == [A, B, A]
        await stop(running)

    run(story)


def test_many_changes_are_one_pass() -> None:
    async def story(engine: Counting) -> None:
        gate = asyncio.Event()
        engine.meanwhile = lambda _key: gate.wait()  # type: ignore[assignment, return-value] # what it returns does not matter
        running = asyncio.create_task(Runner(a_loop(engine, real_clock)).run())
        engine.change(A)
        await until(lambda: engine.busy)
        engine.change(*[A] * 50)
        gate.set()
        await until(lambda: len(engine.passes) == 2 and not engine.busy)
        for _ in range(20):
            await asyncio.sleep(0)
        assert engine.passes == [A, A]
        await stop(running)

    run(story)


@pytest.mark.parametrize(("workers", "at_once"), [(1, 1), (2, 2)])
def test_so_many_jobs_are_served_at_once_as_there_are_workers(workers: int, at_once: int) -> None:
    async def story(engine: Counting) -> None:
        async def linger(_key: JobKey) -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        engine.meanwhile = linger
        running = asyncio.create_task(Runner(a_loop(engine, real_clock), workers=workers).run())
        engine.change(A, B, JobKey("lab", "c"))
        await until(lambda: len(engine.passes) == 3 and not engine.busy)
        assert engine.most_busy == at_once
        await stop(running)

    run(story)


def test_an_appointment_is_kept() -> None:
    async def story(engine: Counting) -> None:
        loop = a_loop(engine, real_clock)
        loop.queue.add_at(A, real_clock() + dt.timedelta(milliseconds=100))
        began = asyncio.get_running_loop().time()
        running = asyncio.create_task(Runner(loop).run())
        await until(lambda: engine.passes)
        assert asyncio.get_running_loop().time() - began >= 0.09
        await stop(running)

    run(story)


class Defect(Exception):  # noqa: N818 - it is one
    pass


async def _break(_key: JobKey) -> None:
    raise Defect


def test_a_defect_ends_the_runner() -> None:
    async def story(engine: Counting) -> None:
        engine.meanwhile = _break
        engine.change(A)
        with pytest.raises(ExceptionGroup) as error:
            await Runner(a_loop(engine, real_clock)).run()
        assert error.value.subgroup(Defect) is not None

    run(story)


def test_a_handled_defect_does_not_end_the_runner() -> None:
    async def story(engine: Counting) -> None:
        told: list[JobKey] = []

        async def break_one(key: JobKey) -> None:
            if key == A:
                raise Defect

        engine.meanwhile = break_one
        runner = Runner(a_loop(engine, real_clock), on_defect=lambda key, _error: told.append(key))
        running = asyncio.create_task(runner.run())
        engine.change(A, B)
        await until(lambda: B in engine.passes and told)
        assert A in told
        # It is tried again, later.
        await until(lambda: engine.passes.count(A) > 1)
        await stop(running)

    run(story)
