from __future__ import annotations

import asyncio

from pumice.engines.kubernetes.api.concurrency_limit import ConcurrencyLimit
from pumice.model.snapshot import JobKey
from pumice.runtime.runner import SERVED
from tests.unit.engines.kubernetes.played_api import play, played


def test_calls_are_bounded_and_run_in_order() -> None:
    async def story() -> tuple[int, list[int]]:
        limit, most, order = ConcurrencyLimit(3), 0, []

        async def write(number: int) -> None:
            nonlocal most
            await limit.acquire()
            order.append(number)
            most = max(most, limit.running)
            await asyncio.sleep(0)
            limit.release()

        await asyncio.gather(*(write(number) for number in range(20)))
        assert limit.running == 0
        return most, order

    assert play(story()) == (3, list(range(20)))


@played
async def test_jobs_take_turns() -> None:
    """A job with few calls does not wait for all calls of a job that came first."""
    limit, order = ConcurrencyLimit(2), list[str]()

    async def call(job: str) -> None:
        SERVED.set(JobKey("a", job))
        await limit.acquire()
        order.append(job)
        await asyncio.sleep(0)
        limit.release()

    await asyncio.gather(*(call(job) for job in ["large"] * 10 + ["small"] * 2))
    assert order[:6] == ["large", "large", "large", "small", "large", "small"]
    assert order[6:] == ["large"] * 6
    assert limit.running == 0


def test_a_throttled_burst_halves_the_limit_once() -> None:
    async def story() -> list[int]:
        limit = ConcurrencyLimit(64)
        burst = [await limit.acquire() for _ in range(64)]
        for epoch in burst:
            limit.throttled(epoch)
            limit.release()
        seen = [limit.allowed]
        again = await limit.acquire()
        limit.throttled(again)
        limit.release()
        return [*seen, limit.allowed]

    assert play(story()) == [32, 16]


@played
async def test_the_limit_stays_at_least_one_and_grows_back_slowly() -> None:
    limit = ConcurrencyLimit(8)
    for _ in range(10):
        limit.throttled(await limit.acquire())
        limit.release()
    assert limit.allowed == 1
    grown = []
    for _ in range(100):
        await limit.acquire()
        limit.release()
        limit.succeeded()
        grown.append(limit.allowed)
    assert grown[0] == 2
    assert grown == sorted(grown)
    # About one for each full round of successes: from 1 to 8 takes at least 1 + 2 + ... + 7.
    assert 20 <= grown.index(8) <= 40
    assert grown[-1] == 8


@played
async def test_fewer_calls_are_admitted_after_a_halving() -> None:
    limit = ConcurrencyLimit(4)
    epochs = [await limit.acquire() for _ in range(4)]
    waiting = [asyncio.ensure_future(limit.acquire()) for _ in range(4)]
    await asyncio.sleep(0)
    limit.throttled(epochs[0])
    for _ in range(2):
        limit.release()
    await asyncio.sleep(0)
    assert [future.done() for future in waiting] == [False] * 4
    limit.release()
    await asyncio.sleep(0)
    assert [future.done() for future in waiting] == [True, False, False, False]
    for _ in range(5):
        limit.release()
        await asyncio.sleep(0)
    assert limit.running == 0


@played
async def test_a_cancelled_call_takes_no_slot() -> None:
    limit = ConcurrencyLimit(1)
    await limit.acquire()
    waiting = [asyncio.ensure_future(limit.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    limit.release()  # The slot goes to the second call, which is cancelled before it runs.
    waiting[1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert waiting[2].done()
    assert limit.running == 1
    limit.release()
    assert limit.running == 0


@played
async def test_a_call_waits_for_as_many_slots_as_it_needs() -> None:
    limit = ConcurrencyLimit(10)
    await limit.acquire(6)
    waiting = [asyncio.ensure_future(limit.acquire(slots)) for slots in (5, 4, 20, 1)]
    await asyncio.sleep(0)
    assert [future.done() for future in waiting] == [False] * 4
    limit.release(6)
    await asyncio.sleep(0)
    assert ([future.done() for future in waiting], limit.running) == ([True, True, False, False], 9)
    limit.release(5)
    limit.release(4)
    await asyncio.sleep(0)
    # More than there are: it runs alone.
    assert ([future.done() for future in waiting], limit.running) == ([True, True, True, False], 20)
    limit.release(20)
    await asyncio.sleep(0)
    assert limit.running == 1


@played
async def test_a_large_call_that_is_cancelled_makes_room_for_those_behind_it() -> None:
    limit = ConcurrencyLimit(10)
    await limit.acquire(6)
    waiting = [asyncio.ensure_future(limit.acquire(slots)) for slots in (5, 4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait([waiting[1]], timeout=30)
    assert limit.running == 10
