"""`kill -9` of `pumice run` at random moments, many times: what is left, and for how long.

The job has three pods with keys, volumes, an init container and background processes. It is killed at a random moment
between the first import and the last cleanup. Then the processes, namespaces, mounts and interfaces of the job are
polled until none is left. Now and then a run is not killed and must succeed. A leftover ends the measurement with an
error that names the seed.

Arguments: the number of kills, and the seed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.local.killing import Lane

KILLS = 1000
PER_LANE = 25
AT_ONCE = max(2, os.cpu_count() or 2)


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else KILLS
    seed = int(arguments[1]) if len(arguments) > 1 else time.time_ns() % 10**6
    print(f"{kills} kills, seed {seed}, {AT_ONCE} at once", flush=True)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(AT_ONCE) as pool:
        lanes = [Lane(Path(directory) / str(number), seed + number) for number in range(-(-kills // PER_LANE))]
        sizes = [min(PER_LANE, kills - PER_LANE * number) for number in range(len(lanes))]
        try:
            for lane in pool.map(Lane.run, lanes, sizes):
                print(f"\r{lane}: nothing left   ", end="", flush=True)
        finally:
            # After a leftover or Ctrl-C, start no further lane.
            pool.shutdown(cancel_futures=True)
    print()
    times = sorted(value for lane in lanes for value in lane.times)
    moments = sum((lane.moments for lane in lanes), Counter[str]())
    alive = sum(lane.processes for lane in lanes) / len(times)
    print("killed after:", ", ".join(f"{name!r} {count}" for name, count in sorted(moments.items())))
    print(f"processes that were alive at a kill: {alive:.1f} on average")
    print(
        f"nothing left after: median {1000 * statistics.median(times):.0f} ms,"
        f" 99 of 100 {1000 * times[int(len(times) * 0.99)]:.0f} ms, longest {1000 * times[-1]:.0f} ms"
    )
    print(f"{len(times)} kills in {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
