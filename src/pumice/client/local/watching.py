"""Follows a run of this machine: its journal, or its process, or its status while it has none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pumice.client.backend import Update
from pumice.client.local.connections import connected
from pumice.client.local.run_logs import is_live
from pumice.store.events import LogLine, LogOutput
from pumice.store.files.run_store import StoredRun
from pumice.store.history.entries import EventDecoder
from pumice.store.journal import Entry, read_journal
from pumice.store.run_end import RunEnded
from pumice.store.run_errors import WrongState

if TYPE_CHECKING:
    from pumice.client.local.local_backend import LocalBackend

_POLL: Final = 0.1
_JOURNAL_POLL: Final = 0.2
_WAKE: Final = 50  # looks, until the service is asked again to care for the run


async def journal(run: StoredRun, *, follow: bool) -> AsyncGenerator[Sequence[Entry], None]:
    """Yield past entries; with `follow` new ones, too, until the run is no longer live."""
    live, offset = True, 0
    while live:
        live = follow and is_live(run)
        entries, offset, _ = read_journal(run.directory, offset)
        yield entries
        if live:
            await asyncio.sleep(_JOURNAL_POLL)


async def watch(backend: LocalBackend, run: StoredRun) -> AsyncGenerator[Update, None]:
    """Yield updates until the run ends, in its next process too; while it waits, its status when that changes."""
    message, looks = "", 0
    while True:
        if looks % _WAKE == 0:
            await backend.revive([run])
        looks += 1
        with suppress(WrongState):
            async for update in _reports(run):
                yield update
                if isinstance(update, RunEnded):
                    return
        status = backend.summary(run)
        if status.is_over or (status.message != message and not run.is_owned):
            message = status.message
            yield status
        if status.is_over:
            return
        await asyncio.sleep(_POLL)


async def _reports(run: StoredRun) -> AsyncIterator[Update]:
    """Yield what the process of a run reports until it ends. Raises WrongState if there is none."""
    async with connected(run) as connection:
        await connection.call("events")
        history = run.history()
        decoder = EventDecoder(history.job)
        yield history
        while (received := await connection.receive()) is not None:
            if received.get("event") == LogOutput.__name__:
                yield LogOutput([LogLine(*line) for line in received["data"]])
                continue
            event = decoder.decode_message(str(received.get("event")), received.get("data"))
            if event is not None:
                yield event
