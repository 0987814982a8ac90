"""Waits until runs have finished, or have reached an outcome or a phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing

from pumice.client.backend import Backend, RunRef
from pumice.client.values import FINISHED, Status
from pumice.store.run_errors import WaitTimeout


async def wait(
    backend: Backend,
    runs: Sequence[RunRef],
    goal: str = FINISHED,
    *,
    some: bool = False,
    timeout: float | None = None,  # noqa: ASYNC109 - the message says what was waited for
) -> Sequence[Status]:
    """Wait until all runs, or with `some` one of them, have reached the goal or are over. Raises WaitTimeout."""
    deadline = None if timeout is None else time.monotonic() + timeout
    async with aclosing(backend.statuses(runs)) as updates:
        async for statuses in updates:
            done = [each.is_over or (goal.lower() != FINISHED and each.reached(goal)) for each in statuses]
            if any(done) if some else all(done):
                return statuses
            if deadline is not None and time.monotonic() >= deadline:
                waiting = ", ".join(each.run for each, is_done in zip(statuses, done, strict=True) if not is_done)
                raise WaitTimeout(f"{waiting}: not {goal} within {timeout:g}s")
    return []
