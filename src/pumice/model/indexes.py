"""Sets of pod indexes, written as ranges: `0-2,5`. A job of 10,000 pods stays a few characters in its status."""

from __future__ import annotations

from collections.abc import Iterable

Indexes = frozenset[int]
NONE: Indexes = frozenset()


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_indexes(text: str) -> Indexes:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
