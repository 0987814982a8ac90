"""What the benchmarks measure: how long a block takes, what another process uses, and the page of `pumice ui`."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    """Append the seconds that the block takes."""
    began = time.perf_counter()
    yield
    times.append(time.perf_counter() - began)


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """The shortest of some rounds: what the work takes when nothing else gets in the way."""
    times: list[float] = []
    for _ in range(rounds):
        gc.collect()
        with timed(times):
            work()
    return min(times)


@contextmanager
def processor_time() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the processor seconds of this process, and of those that it waits for, so far."""
    began = _own_processor_seconds()
    yield lambda: _own_processor_seconds() - began


def _own_processor_seconds() -> float:
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, _WHO))


def processor_seconds(pid: int) -> float:
    """Return the processor time of another process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the memory of a process alone, in MiB: pages that it shares with others count in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Pss:"))) / 1024


@contextmanager
def running_page(environ: Mapping[str, str], *arguments: str) -> Iterator[tuple[int, str]]:
    """Run `pumice ui`, and yield its process and its address."""
    words = [str(Path(sys.executable).with_name("pumice")), "ui", "--no-open", *arguments]
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as page:
        try:
            yield page.pid, page.stdout.readline().strip() if page.stdout is not None else ""
        finally:
            page.send_signal(signal.SIGTERM)
