from __future__ import annotations

import asyncio

import pytest

from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, run_with_timeout
from tests.unit.engines.kubernetes.played_api import play, played


@played
async def test_the_first_to_end_cancels_the_others() -> None:
    ended: list[str] = []

    async def endless(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # The cleanup is awaited.
            await asyncio.sleep(0.01)
            ended.append(name)

    async def short() -> str:
        await asyncio.sleep(0)
        return "done"

    await run_until_first_ends(endless("a"), short(), endless("b"))
    assert sorted(ended) == ["a", "b"]


@played
async def test_an_exception_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await run_until_first_ends(asyncio.sleep(600), broken())


@played
async def test_cancelling_cancels_all() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    running = asyncio.create_task(run_until_first_ends(endless(), endless()))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended == ["ended", "ended"]


def test_a_timeout_at_shutdown_does_not_stop_the_cleanup() -> None:
    """In Python 3.11, a timeout in a cancelled task cancels the task once more."""

    async def story() -> list[str]:
        done: list[str] = []

        async def ending() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await run_with_timeout(0.01, asyncio.Event().wait())
                done.append("tidied")

        task = asyncio.create_task(ending())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return done

    assert play(story()) == ["tidied"]
