"""`make fuzz`: feeds mutated Jobs, reviews, HTTP answers and images to Pumice for a given time.

No input may cause a traceback, take more than five seconds of processor time or bring the process above 500 MB. A case
is named by its target and its seed, such as `images:17`; the same name is the same input. A case that failed once is
added to FIXED, which every run starts with.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Final

from tests.fuzz.targets import TARGETS, Defect

FIXED: Final[tuple[str, ...]] = ()
LONGEST: Final = 5.0  # seconds of processor time
LARGEST: Final = 500  # MB


def main() -> int:
    parser = argparse.ArgumentParser(description="Feed mutated input to Pumice.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; default 60")
    parser.add_argument("--seed", type=int, default=1, help="where the seeds begin; default 1")
    parser.add_argument("cases", nargs="*", metavar="TARGET:SEED", help="only these cases, such as images:17")
    args = parser.parse_args()
    signal.signal(signal.SIGPROF, _stop)
    began, failed, done = time.monotonic(), [], Counter[str]()
    for case in args.cases or _cases(args.seed):
        if not args.cases and time.monotonic() - began > args.seconds:
            break
        done[case.partition(":")[0]] += 1
        if not passes(case):
            failed.append(case)
    counts = ", ".join(f"{count} of {target}" for target, count in done.items())
    print(f"{counts}; {memory():.0f} MB; {len(failed)} failed", flush=True)
    if failed:
        print(f"again: .venv/bin/python -m scripts.fuzz {' '.join(failed)}")
    return 1 if failed else 0


def _cases(seed: int) -> Iterator[str]:
    yield from FIXED
    while True:
        for target in TARGETS:
            yield f"{target}:{seed}"
        seed += 1


def passes(case: str) -> bool:
    target, _, seed = case.partition(":")
    before = memory()
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        TARGETS[target](random.Random(f"{target}:{seed}"))  # noqa: S311 - not for secrets
        if memory() > LARGEST >= before:
            raise Defect(f"{memory():.0f} MB of memory, {before:.0f} MB before")
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(error, KeyboardInterrupt):
            raise
        print(f"FAILED {case}", flush=True)
        traceback.print_exc()
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return True


def memory() -> float:
    """The peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class TooSlow(BaseException):
    pass


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {LONGEST:.0f} s of processor time")


if __name__ == "__main__":
    sys.exit(main())
