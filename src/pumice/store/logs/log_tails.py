"""The end of the log of the first failed pod of each attempt, as a Secret of the Job keeps it.

The controller writes it (`pumice install --keep-log-tails`) before it deletes the pod; `why`, `history` and `logs` read
it.
A log may quote secrets, so neither its lines nor what follows from them is ever outside of the Secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.model.snapshot import ObservedPod

MOST_ATTEMPTS: Final = 10
MOST_LINES: Final = 100
MOST_BYTES: Final = 8 << 10  # with the times of the lines
_MOST_TEXT: Final = 1 << 10  # characters of what the pod itself says
_KEY: Final = re.compile(r"attempt-([1-9][0-9]{0,8})\.(?:json|log)")


class LogTail(Struct, frozen=True):
    """`text` has whole lines with their times, as the API server sends them; any bytes may be in it."""

    attempt: int
    pod: ObservedPod
    container: str
    problem: str = ""  # why there are no lines
    text: bytes = b""


class _About(Struct, frozen=True):
    pod: ObservedPod
    container: str = ""
    problem: str = ""


def tail_data(tail: LogTail) -> dict[str, str]:
    """Return the entries of the Secret for one attempt."""
    ends = tuple(replace(end, last_line=end.last_line[:_MOST_TEXT]) for end in tail.pod.ends)
    pod = replace(tail.pod, message=tail.pod.message[:_MOST_TEXT], ends=ends)
    about = msgspec.json.encode(_About(pod, tail.container, tail.problem[:_MOST_TEXT]))
    entries = zip(_keys(tail.attempt), (about, tail.text), strict=True)
    return {key: base64.b64encode(content).decode() for key, content in entries}


def old_keys(data: Mapping[str, object], attempt: int) -> list[str]:
    """Return the entries to remove, so that no more than MOST_ATTEMPTS are left with this attempt: the oldest."""
    numbers = {int(match[1]) for match in map(_KEY.fullmatch, data) if match is not None} | {attempt}
    old = sorted(numbers)[:-MOST_ATTEMPTS]
    return [key for number in old for key in _keys(number) if key in data]


def read_tail(data: Mapping[str, str], attempt: int) -> LogTail | None:
    """Return what is kept of an attempt; None if there is nothing that can be read: anybody may have written it."""
    about_key, log_key = _keys(attempt)
    try:
        about = msgspec.json.decode(base64.b64decode(data[about_key]), type=_About)
        text = base64.b64decode(data.get(log_key, ""))
    except (KeyError, ValueError, msgspec.DecodeError, binascii.Error):
        return None
    return LogTail(attempt, about.pod, about.container, about.problem, text)


def read_tails(data: Mapping[str, str]) -> Iterator[LogTail]:
    """Yield what is kept, the oldest attempt first."""
    numbers = {int(match[1]) for match in map(_KEY.fullmatch, data) if match is not None}
    for number in sorted(numbers):
        if (tail := read_tail(data, number)) is not None:
            yield tail


def end_of(log: bytes) -> bytes:
    """Return the last lines of a log, at most MOST_LINES and MOST_BYTES; of a longer line, its time and its end."""
    if log and not log.endswith(b"\n"):
        log += b"\n"
    lines = [line + b"\n" for line in log.split(b"\n")[:-1]]
    kept: list[bytes] = []
    size = 0
    for line in reversed(lines[-MOST_LINES:]):
        size += len(line)
        if size > MOST_BYTES:
            break
        kept.append(line)
    if lines and not kept:
        stamp, _, _ = lines[-1].partition(b" ")
        start = stamp[:64] + b" "
        return start + lines[-1][len(start) - MOST_BYTES :]
    return b"".join(reversed(kept))


def _keys(attempt: int) -> tuple[str, str]:
    return f"attempt-{attempt}.json", f"attempt-{attempt}.log"
