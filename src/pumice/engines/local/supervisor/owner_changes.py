"""Changes runs that may get or lose their process at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pumice.engines.local.clock import elapsed
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_store import StoredRun

_ENDS_WITHIN: Final = 5.0
_CHANGES_WITHIN: Final = 30.0
_POLL: Final = 0.1


async def lock_of_suspended(run: StoredRun) -> OwnerLock | None:
    """Take the owner lock of a run that is suspended; None if it is not.

    Its process has stored that the run is suspended, and may need a moment to end.
    """
    deadline = elapsed() + _ENDS_WITHIN
    while run.status().needs_resume and elapsed() < deadline:
        lock = OwnerLock.take(run.directory)
        if lock is not None and run.status().needs_resume:
            return lock
        if lock is not None:
            lock.release()
        await asyncio.sleep(_POLL)
    return None


async def change(alone: Callable[[], bool], ask: Callable[[], Awaitable[Any]], again: Callable[[], bool]) -> bool:
    """Change a run that no process owns, else ask its process. Return whether no process was asked.

    It may get or lose its process meanwhile, and a reader that looks for an owner seems to be one for an instant: then
    both are tried again, as long as `again` says so. Raises RunError.
    """
    deadline = elapsed() + _CHANGES_WITHIN
    while not alone():
        try:
            await ask()
        except WrongState:
            if elapsed() > deadline or not again():
                raise
        else:
            return False
        await asyncio.sleep(_POLL)
    return True
