from __future__ import annotations

import asyncio

import pytest

from pumice.engines.kubernetes.controller.task_groups import run_until_first_ends, within
from tests.unit.engines.kubernetes.played_api import play


def test_the_first_to_end_ends_the_others() -> None:
    told: list[str] = []

    async def endless(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # What it does in the end is waited for.
            await asyncio.sleep(0.01)
            told.append(name)

    async def short() -> str:
        await asyncio.sleep(0)
        return "done"

    async def story() -> None:
        await run_until_first_ends(endless("a"), short(), endless("b"))
        assert sorted(told) == ["a", "b"]

    play(story())


def test_what_one_raises_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("broken")

    async def story() -> None:
        with pytest.raises(ValueError, match="broken"):
            await run_until_first_ends(asyncio.sleep(600), broken())

    play(story())


def test_who_is_cancelled_leaves_nobody_behind() -> None:
    told: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            told.append("ended")

    async def story() -> None:
        running = asyncio.create_task(run_until_first_ends(endless(), endless()))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert told == ["ended", "ended"]

    play(story())


def test_last_words_that_nobody_hears_do_not_keep_the_rest_from_being_tidied() -> None:
    """In Python 3.11 a time-out within a task that was cancelled ends the task once more."""

    async def story() -> list[str]:
        done: list[str] = []

        async def ending() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await within(0.01, asyncio.Event().wait())
                done.append("tidied")

        task = asyncio.create_task(ending())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return done

    assert play(story()) == ["tidied"]
