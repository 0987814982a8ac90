"""Collects what a short command writes into a pipe, while asyncio goes on with other things."""

from __future__ import annotations

import asyncio
import os

_MOST = 1 << 20


class Collector:
    """`writer` is the end to give away. What comes after the first MiB is read and dropped."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._data = bytearray()
        self._ended = asyncio.Event()
        self._loop.add_reader(self._reader, self._read)

    def _read(self) -> None:
        try:
            part = os.read(self._reader, 65536)
        except BlockingIOError:
            return
        self._data += part[: _MOST - len(self._data)]
        if not part:
            self._loop.remove_reader(self._reader)
            self._ended.set()

    async def end(self, patience: float) -> bytes:
        """What there is at the end, or after so many seconds: a process left in the background keeps the pipe open."""
        try:
            async with asyncio.timeout(patience):
                await self._ended.wait()
        except TimeoutError:
            self._read()
        return bytes(self._data)

    def close(self) -> None:
        self._loop.remove_reader(self._reader)
        os.close(self._reader)
