"""Sets of pod indexes, written as ranges: `0-2,5`. A job of 10,000 pods stays a few characters in its status."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

Indexes = frozenset[int]
NONE: Indexes = frozenset()
# The largest number of pods that a Kubernetes cluster is built for; beyond it a number is a slip of the finger.
MOST_PODS: Final = 150_000
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def write_indexes(indexes: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def read_indexes(text: str, below: int = MOST_PODS) -> Indexes:
    """What `write_indexes` wrote, and of what anybody else may have written there as much as makes sense."""
    found: set[int] = set()
    least = 0
    for part in text.split(","):
        written = _RANGE.fullmatch(part)
        first = int(written[1]) if written is not None else below
        if written is None or not least <= first < below:
            # Ranges rise, so that nobody can make us count the same ones over and over.
            break
        least = min(int(written[2] or first) + 1, below)
        found.update(range(first, least))
    return frozenset(found)
