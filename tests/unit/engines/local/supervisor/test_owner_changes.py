from __future__ import annotations

import asyncio

import pytest

from pumice.engines.local.supervisor.owner_changes import change
from pumice.store.run_errors import WrongState


class Run:
    """A run without process. In `busy` looks a reader seems to own it."""

    def __init__(self, busy: int) -> None:
        self.busy, self.asked = busy, 0

    def change_alone(self) -> bool:
        self.busy -= 1
        return self.busy < 0

    async def ask(self) -> None:
        self.asked += 1
        raise WrongState("it has no process")


def test_a_run_without_process_is_changed_though_a_reader_looks_for_an_owner() -> None:
    run = Run(busy=2)
    assert asyncio.run(change(run.change_alone, run.ask, lambda: True))
    assert run.asked == 2


def test_a_run_that_does_not_wait_is_not_asked_again() -> None:
    run = Run(busy=2)
    with pytest.raises(WrongState):
        asyncio.run(change(run.change_alone, run.ask, lambda: False))
    assert run.asked == 1


def test_the_process_of_a_run_is_asked_once() -> None:
    asked = []

    async def ask() -> None:
        asked.append(1)

    assert not asyncio.run(change(lambda: False, ask, lambda: True))
    assert asked == [1]
