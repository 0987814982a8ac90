"""Server-sent events: what changed in the list of jobs, or in one job, drawn from the files of the store.

The standard library has no inotify, so active runs are polled, less often if a poll takes long. Each event has an id. A
browser that reconnects sends the last id and gets what it missed; if that is too much, it gets the newest lines with
their numbers, and fetches the missing ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from aiohttp import web

from pumice.store.run_errors import RunError
from pumice.ui.data.jobs import NoSuchJobError
from pumice.ui.page_data import PageData, SeenJobs
from pumice.ui.pages import draw_lines
from pumice.ui.queries import JobPosition, JobQuery
from pumice.ui.security import HEADERS
from pumice.ui.values import Waiting

_MOST_STREAMS: Final = 32
_BEAT: Final = 2.0  # seconds
_SOON: Final = 0.25
_LATE: Final = 1.0
_SHARE: Final = 60  # a poll that takes a second is followed by this many seconds of rest
_RETRY: Final = 1000  # milliseconds until a browser connects again
_WRITE_SECONDS: Final = 10.0


@dataclass(slots=True)
class Streams:
    data: PageData
    _open: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """End all streams, so that the server can stop."""
        self._stopping.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Send events until the browser leaves, or the server stops."""
        if self._open >= _MOST_STREAMS:
            return web.Response(status=503)
        uid = request.query.get("job", "")
        query = JobQuery.of(uid, request.query)
        last = request.headers.get("Last-Event-ID", "") or request.query.get("last", "")
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        self._open += 1
        try:
            await response.write(f"retry: {_RETRY}\n\n".encode())
            source = self._job(query, last) if uid else self._jobs()
            async for event in source:
                # A browser that does not read is disconnected.
                await asyncio.wait_for(response.write(event), _WRITE_SECONDS)
        except (NoSuchJobError, RunError):
            # The run was removed, or cannot be read. Not a 404: a browser could not tell it from a server that is away.
            with suppress(ConnectionError):
                await response.write(_event("gone", {}))
        except (ConnectionError, TimeoutError):
            return response
        finally:
            self._open -= 1
        return response

    async def _ticks(self) -> AsyncIterator[float]:
        """Yield the time, often while something changes, and less often the more a poll costs."""
        pause = _SOON
        while not self._stopping.is_set():
            begin = time.monotonic()
            yield begin
            cost = time.monotonic() - begin
            pause = min(_LATE, pause * 1.2)
            try:
                await asyncio.wait_for(self._stopping.wait(), max(pause, min(cost * _SHARE, _BEAT)))
            except TimeoutError:
                continue

    async def _jobs(self) -> AsyncIterator[bytes]:
        """Yield the jobs that change, those that are gone, and the numbers of the filters."""
        seen: SeenJobs | None = None
        beat = float("-inf")
        notices: Sequence[str] = ()
        async for now in self._ticks():
            seen, changes = await self.data.changed_jobs(seen)
            for kind, value in changes:
                yield _event(kind, value)
            if (told := self.data.observer.notices()) != notices:
                notices = told
                yield _event("notice", notices)
            if now - beat >= _BEAT:
                beat = now
                yield _event("beat", {"time": self.data.backend.now()})

    async def _job(self, query: JobQuery, last: str) -> AsyncIterator[bytes]:
        """Yield the changes of one job after the entry and the line that `last` names."""
        at = JobPosition.parse(last)
        beat = float("-inf")
        read: float | None = None
        waiting: Waiting | None = None
        tasks = await self.data.tasks(query.uid) if query.html else ()
        notices: Sequence[str] = ()
        async for now in self._ticks():
            at, changes = await self.data.changed_job(query, at)
            for kind, value in changes:
                yield _event(kind, value, at)
            if (told := self.data.observer.notices()) != notices:
                notices = told
                yield _event("notice", notices, at)
            before, read = read, time.monotonic()
            lines = await self.data.new_lines(query, at, None if before is None else read - before)
            if lines is not None:
                at = JobPosition(at.seq, lines.total, at.samples)
                yield _event("line", draw_lines(lines, tasks) if query.html else lines, at)
            if now - beat >= _BEAT:
                beat = now
                waiting, changes = await self.data.changed_waiting(query, waiting)
                for kind, value in changes:
                    yield _event(kind, value, at)
                yield _event("beat", {"time": self.data.backend.now()}, at)


def _event(kind: str, data: Any, at: JobPosition | str = "") -> bytes:
    """Return an event. `at` is what the browser sends when it reconnects."""
    head = f"id: {at}\n" if at else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
