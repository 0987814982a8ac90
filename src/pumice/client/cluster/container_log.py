"""The log of one execution of a container, read from the API server in any number of parts.

The server finds lines by the second only. So each part begins with the second of the newest line, and what was read of
that second is recognised: no line is lost, none is doubled.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import ClusterPod, JobFacts
from pumice.diagnosis.failure_lines import LONGEST, LOOKED_AT, cause_line
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import PODS
from pumice.model.snapshot import ContainerEnd, PodPhase
from pumice.reconcile.phases import AT_REST
from pumice.store.logs.log_source import Execution

SECOND: Final = 10**9
_PREFIX: Final = 19  # characters of a time up to its seconds
_DIGITS: Final = 9

# What a kubelet sends in place of the log of a container that it has removed.
_NO_LOG: Final = (b"unable to retrieve container logs for ", b"failed to try resolving symlinks in path ")

LOGS: Final = "logs"  # as a thing that a user may not read
_MOST_PODS: Final = 16  # pods; those that failed later have followed
_LIMIT: Final = 3.0  # seconds: a node may not answer
_MOST_BYTES: Final = 256 << 10
_NEVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)

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


# --- the ends of the logs of failed pods: why they failed is in no status ---------------------------------------------


async def with_last_lines(connection: Connection, facts: JobFacts) -> JobFacts:
    """Return the facts of a Job that is over with the last line of each container that failed."""
    if facts.job.status.state.phase not in AT_REST:
        return facts
    failed = [pod for pod in facts.pods if pod.observed.phase is PodPhase.FAILED and not pod.observed.is_deleting]
    failed.sort(key=lambda pod: pod.observed.ended_at or _NEVER)
    try:
        found = await asyncio.gather(*(_with_last_lines(connection, pod) for pod in failed[:_MOST_PODS]))
    except ApiError as error:
        return replace(facts, unreadable=[*facts.unreadable, LOGS]) if error.is_forbidden else facts
    by_uid = {pod.observed.uid: pod for pod in found}
    return replace(facts, pods=[by_uid.get(pod.observed.uid, pod) for pod in facts.pods])


async def _with_last_lines(connection: Connection, pod: ClusterPod) -> ClusterPod:
    ends = tuple([await _with_last_line(connection, pod, end) for end in pod.observed.ends])
    return replace(pod, observed=replace(pod.observed, ends=ends))


async def _with_last_line(connection: Connection, pod: ClusterPod, end: ContainerEnd) -> ContainerEnd:
    if end.last_line or not end.exit_code:
        return end
    seen = pod.observed
    execution = Execution(seen.short_name, 1, seen.retry + 1, end.container, 0, "")
    log = ContainerLog(connection, pod.namespace, pod.name, execution, tail=LOOKED_AT)
    printed: list[str] = []
    size = 0
    try:
        async with asyncio.timeout(_LIMIT), aclosing(log.read()) as parts:
            async for lines in parts:
                printed += [text.decode("utf-8", "replace").rstrip("\n") for _, _, text in lines if text.strip()]
                size += sum(len(text) for _, _, text in lines)
                if size > _MOST_BYTES:
                    break
    except TimeoutError:
        return end
    except ApiError as error:
        if error.is_forbidden:
            raise
        return end
    return replace(end, last_line=cause_line(printed)[:LONGEST])
