"""Parses the queries of the page and of its endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pumice.ui.detail_values import LogFilter
from pumice.ui.values import Group

OVERVIEW: Final = "overview"
TABS: Final = {  # of a job, with their labels
    OVERVIEW: "Overview",
    "resources": "Resources",
    "rendered": "Pods as rendered",
    "events": "Events",
    "policies": "Policies",
}
_LONGEST: Final = 300
_LARGEST: Final = 1 << 53
_FIELDS: Final = 3
_DIGITS: Final = 18
_STREAMS: Final = ("", "stdout", "stderr")


class BadQueryError(ValueError):
    """A value of the query cannot be used."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """`?tab&attempt&pod&task&stream&at&lines&q&only&whole&html&compare&after&step&buckets&every`.

    Without `attempt` it is the newest; `all` is 0.
    """

    uid: str
    tab: str = OVERVIEW
    attempt: int | None = None
    pod: str = ""
    task: str = ""
    stream: str = ""
    at: int | None = None
    lines: int | None = None
    q: str = ""
    only: bool = False  # lines with `q` only
    whole: bool = False  # long lines are not cut
    html: bool = False  # lines are drawn
    compare: str = ""
    after: str = ""
    step: float | None = None
    buckets: int | None = None
    every: bool = False  # a lifeline for each pod, not only for those that stand out

    @classmethod
    def of(cls, uid: str, query: Mapping[str, str]) -> JobQuery:
        """Raises BadQueryError."""
        for name, value in query.items():
            if len(value) > _LONGEST:
                raise BadQueryError(f"{name}: longer than {_LONGEST} characters")
        stream = query.get("stream", "")
        if stream not in _STREAMS:
            raise BadQueryError(f"stream: {stream}: must be stdout or stderr")
        tab = query.get("tab") or OVERVIEW
        if tab not in TABS:
            raise BadQueryError(f"tab: {tab}: must be one of {', '.join(TABS)}")
        step = _number(query, "step")
        fields: dict[str, Any] = {name: query.get(name, "") for name in ("pod", "task", "q", "compare", "after")}
        fields |= {name: bool(query.get(name)) for name in ("only", "whole", "html", "every")}
        fields |= {name: _number(query, name) for name in ("at", "lines", "buckets")}
        fields["attempt"] = 0 if query.get("attempt") == "all" else _number(query, "attempt")
        fields["step"] = None if step is None else float(step)
        return cls(uid=uid, tab=tab, stream=stream, **fields)

    @property
    def after_number(self) -> int | None:
        return _number({"after": self.after}, "after")

    def log_filter(self, newest: int) -> LogFilter:
        attempt = newest if self.attempt is None else self.attempt
        return LogFilter(attempt=attempt, pod=self.pod, task=self.task, stream=self.stream)


@dataclass(frozen=True, slots=True)
class JobPosition:
    """What a browser has of a job: entries of the journal, lines of its selection, bytes of samples. -1: nothing."""

    seq: int = -1
    lines: int = -1
    samples: int = -1

    def __str__(self) -> str:
        return f"{self.seq}.{self.lines}.{self.samples}"

    @classmethod
    def parse(cls, text: str) -> JobPosition:
        """Return the position of a `Last-Event-ID`; the first one if it cannot be read."""
        words = text.split(".")
        if len(words) != _FIELDS or not all(word.isascii() and word.isdecimal() for word in words):
            return cls()
        return cls(*(min(int(word[:_DIGITS]), _LARGEST) for word in words))


def group_of_query(query: Mapping[str, str]) -> Group:
    """Return the group of `?phase=`. Raises BadQueryError."""
    text = query.get("phase") or Group.ALL
    try:
        return Group(text)
    except ValueError as error:
        raise BadQueryError(f"phase: {text[:_LONGEST]}: must be one of {', '.join(Group)}") from error


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text[:20]) > _LARGEST:
        raise BadQueryError(f"{name}: {text}: must be a whole number")
    return int(text)
