"""The cost of the system call filter of containers: for each call, and once for each run.

Measured in processes of their own, in turns, without a filter, with the filter, and with the same rules as a plain list
of comparisons, one for each number, as simple filters are written. New kernels remember which calls a filter allows
whatever their arguments are, so these cost next to nothing; the filter decides about the others each time. `refused` is
a call that does not exist without the filter either, so that the difference is the filter's.

`build` is what a run takes once: to read the list, and to make and pack the filter.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import seccomp
from pumice.engines.local.sandbox.init.seccomp import Options, Step

ROUNDS = 15
CALLS = 100_000
NO_CALL = 600
MACHINE = os.uname().machine
OPTIONS = Options(confined=True, single_user=True, nested=False)
_libc = ctypes.CDLL(None)


def getppid() -> None:
    call = os.getppid
    for _ in range(CALLS):
        call()


def personality() -> None:
    call, query = _libc.personality, ctypes.c_ulong(0xFFFFFFFF)
    for _ in range(CALLS):
        call(query)


def refused() -> None:
    call, number = _libc.syscall, ctypes.c_long(NO_CALL)
    for _ in range(CALLS):
        call(number)


SITUATIONS: dict[str, Callable[[], None]] = {
    "allowed: getppid": getppid,
    "by its argument: personality": personality,
    "refused: number 600": refused,
}


def plain_list(tree: Sequence[Step]) -> list[Step]:
    """The same answers by one comparison for each number, one after the other."""
    calls = seccomp.read_calls(MACHINE)
    rules = seccomp._confined_rules(calls, OPTIONS)  # noqa: SLF001 - the same rules in another order
    steps = list(tree[:4])
    for number, rule in sorted(rules.items()):
        steps += [(0x15, 0, len(rule), number), *rule]
    return [*steps, tree[2]]


def nanoseconds(work: Callable[[], None], code: bytes) -> float:
    """The time of one call in a new process with the filter."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.load(code)
        work()
        began = time.perf_counter_ns()
        work()
        os.write(writer, str((time.perf_counter_ns() - began) / CALLS).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        took = float(answer.read())
    os.waitpid(child, 0)
    return took


def main() -> int:
    if not seccomp.is_known(MACHINE):
        print(f"there is no list of system calls for {MACHINE}")
        return 0
    times: dict[str, float] = dict.fromkeys(("read the list", "make the filter", "pack it"), float("inf"))
    for _ in range(ROUNDS):
        moments = [time.perf_counter()]
        calls = seccomp.read_calls(MACHINE)
        moments.append(time.perf_counter())
        tree = seccomp.program(MACHINE, calls, OPTIONS)
        moments.append(time.perf_counter())
        packed = seccomp.pack(tree)
        moments.append(time.perf_counter())
        for name, first, last in zip(times, moments, moments[1:], strict=False):
            times[name] = min(times[name], last - first)
    print("build, once for each run:", ", ".join(f"{name} {1000 * took:.2f} ms" for name, took in times.items()))
    linear = plain_list(tree)
    filters = {"none": b"", "filter": packed, "plain list": seccomp.pack(linear)}
    print(f"steps: {len(tree)} in the filter, {len(linear)} in the plain list")
    best = {(name, kind): float("inf") for name in SITUATIONS for kind in filters}
    for _ in range(ROUNDS):
        for (name, kind), took in best.items():
            best[name, kind] = min(took, nanoseconds(SITUATIONS[name], filters[kind]))
    print(f"{'nanoseconds for each call':<30}{'no filter':>10}{'filter':>10}{'more':>8}{'plain list':>12}{'more':>8}")
    for name in SITUATIONS:
        bare, ours, listed = (best[name, kind] for kind in filters)
        print(f"{name:<30}{bare:>10.0f}{ours:>10.0f}{ours - bare:>8.0f}{listed:>12.0f}{listed - bare:>8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
