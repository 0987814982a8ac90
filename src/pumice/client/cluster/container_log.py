"""The log of one execution of a container, read from the API server in any number of parts.

The server finds lines by the second only. So each part begins with the second of the newest line, and what was read of
that second is recognised: no line is lost, none is doubled.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.resources import PODS
from pumice.store.logs.log_source import Execution

SECOND: Final = 10**9
_PREFIX: Final = 19  # characters of a time up to its seconds
_DIGITS: Final = 9

# What a kubelet sends in place of the log of a container that it has removed.
_NO_LOG: Final = (b"unable to retrieve container logs for ", b"failed to try resolving symlinks in path ")

Line = tuple[int, Execution, bytes]  # nanoseconds since 1970, and the text with its end


@dataclass(slots=True)
class ContainerLog:
    connection: Connection
    namespace: str
    pod: str
    execution: Execution
    since: int = 0  # nanoseconds since 1970; older lines are left out
    tail: int | None = None  # of the first part
    _second: int = 0
    _read: Counter[tuple[int, bytes]] = field(default_factory=Counter)  # of that second
    _zones: dict[bytes, int] = field(default_factory=dict)

    async def read(self, *, follow: bool = False, previous: bool = False) -> AsyncGenerator[list[Line], None]:
        """Yield the lines that have not been read yet, until the log ends. Raises ApiError."""
        params = {"container": self.execution.container, "timestamps": "true"}
        params |= {name: "true" for name, wanted in (("follow", follow), ("previous", previous)) if wanted}
        if start := max(self._second, self.since // SECOND):
            moment = dt.datetime.fromtimestamp(start, dt.UTC)
            params["sinceTime"] = moment.isoformat().replace("+00:00", "Z")
        if self.tail is not None and not self._second:
            params["tailLines"] = str(self.tail)
        again, rest = Counter(self._read), b""
        path = PODS.path(self.namespace, self.pod, "log")
        async with aclosing(self.connection.client.stream(path, params)) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                if found := self._new(lines, again):
                    yield found
        # While it is followed, a cut line comes whole in the next part.
        if rest and not follow and (found := self._new([rest], again)):
            yield found

    def lines_of(self, kept: bytes) -> list[Line]:
        """Return the lines of a log that was kept elsewhere, with their times."""
        return self._new(kept.split(b"\n")[:-1], Counter())

    def _new(self, lines: list[bytes], again: Counter[tuple[int, bytes]]) -> list[Line]:
        found: list[Line] = []
        for line in lines:
            time, text = self._split(line)
            if text is line and line.startswith(_NO_LOG):
                continue
            if again and again[time, text] > 0:
                again[time, text] -= 1
                continue
            if time < self.since:
                continue
            if (second := time // SECOND) > self._second:
                self._second = second
                self._read.clear()
            if second == self._second:
                self._read[time, text] += 1
            found.append((time, self.execution, text + b"\n"))
        return found

    def _split(self, line: bytes) -> tuple[int, bytes]:
        """Return the time of a line and its text; a line without a time has that of the one before."""
        stamp, _, text = line.partition(b" ")
        prefix, rest = stamp[:_PREFIX], stamp[_PREFIX:]
        fraction, zone = rest, b"Z"
        for mark in b"Z+-":
            at = rest.find(mark)
            if at >= 0:
                fraction, zone = rest[:at], rest[at:]
                break
        seconds = self._zones.get(prefix + zone)
        if seconds is None:
            try:
                moment = dt.datetime.fromisoformat((prefix + zone).decode())
                seconds = int(moment.timestamp())
            except (ValueError, UnicodeDecodeError):
                return self._second * SECOND, line
            self._zones.clear()
            self._zones[prefix + zone] = seconds
        digits = fraction.removeprefix(b".")
        if digits and not digits.isdigit():
            return self._second * SECOND, line
        return seconds * SECOND + int(digits.ljust(_DIGITS, b"0")[:_DIGITS] or 0), text
