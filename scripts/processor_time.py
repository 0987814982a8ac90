"""Measures the processor time of this process and of the processes that it starts and waits for."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


@contextmanager
def processor_time() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the seconds that the block has taken so far."""
    began = _now()
    yield lambda: _now() - began


def _now() -> float:
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, _WHO))
