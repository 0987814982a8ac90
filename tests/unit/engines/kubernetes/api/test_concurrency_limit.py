from __future__ import annotations

import asyncio

from pumice.engines.kubernetes.api.concurrency_limit import Limit
from tests.unit.engines.kubernetes.played_api import play


def test_never_more_at_once_than_allowed_and_in_order() -> None:
    async def story() -> tuple[int, list[int]]:
        limit, most, order = Limit(3), 0, []

        async def write(number: int) -> None:
            nonlocal most
            await limit.enter()
            order.append(number)
            most = max(most, limit.running)
            await asyncio.sleep(0)
            limit.leave()

        await asyncio.gather(*(write(number) for number in range(20)))
        assert limit.running == 0
        return most, order

    assert play(story()) == (3, list(range(20)))


def test_a_refused_burst_halves_once() -> None:
    async def story() -> list[int]:
        limit = Limit(64)
        burst = [await limit.enter() for _ in range(64)]
        for epoch in burst:
            limit.refused(epoch)
            limit.leave()
        seen = [limit.allowed]
        again = await limit.enter()
        limit.refused(again)
        limit.leave()
        return [*seen, limit.allowed]

    assert play(story()) == [32, 16]


def test_it_never_falls_below_one_and_grows_back_slowly() -> None:
    async def story() -> None:
        limit = Limit(8)
        for _ in range(10):
            limit.refused(await limit.enter())
            limit.leave()
        assert limit.allowed == 1
        grown = []
        for _ in range(100):
            await limit.enter()
            limit.leave()
            limit.succeeded()
            grown.append(limit.allowed)
        assert grown[0] == 2
        assert grown == sorted(grown)
        # About one for each full round of successes: from 1 to 8 takes at least 1 + 2 + ... + 7.
        assert 20 <= grown.index(8) <= 40
        assert grown[-1] == 8

    play(story())


def test_fewer_are_let_in_after_a_halving() -> None:
    async def story() -> None:
        limit = Limit(4)
        epochs = [await limit.enter() for _ in range(4)]
        waiting = [asyncio.ensure_future(limit.enter()) for _ in range(4)]
        await asyncio.sleep(0)
        limit.refused(epochs[0])
        for _ in range(2):
            limit.leave()
        await asyncio.sleep(0)
        assert [future.done() for future in waiting] == [False] * 4
        limit.leave()
        await asyncio.sleep(0)
        assert [future.done() for future in waiting] == [True, False, False, False]
        for _ in range(5):
            limit.leave()
            await asyncio.sleep(0)
        assert limit.running == 0

    play(story())


def test_who_gives_up_waiting_takes_no_place() -> None:
    async def story() -> None:
        limit = Limit(1)
        await limit.enter()
        waiting = [asyncio.ensure_future(limit.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        limit.leave()  # The place is granted to the second, who gives up before it notices.
        waiting[1].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting[2].done()
        assert limit.running == 1
        limit.leave()
        assert limit.running == 0

    play(story())
