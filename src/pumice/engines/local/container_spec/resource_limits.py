"""What a container may use of the machine: limits as the sandbox takes them, CPUs, threads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from pumice.model.job import Manifest
from pumice.model.resources import resource_list


def memory_limit(container: Manifest) -> int | None:
    limit = resource_list(container, "limits").get("memory")
    return None if limit is None else limit.value()


def cpu_limit(container: Manifest) -> float | None:
    """Return how many CPUs the container may keep busy, possibly a fraction; None without a limit."""
    limit = resource_list(container, "limits").get("cpu")
    return None if limit is None else limit.milli_value() / 1000


def threads_env(container: Manifest) -> dict[str, str]:
    """Limit OpenMP to the container's CPUs: libraries start one thread per CPU of the machine otherwise."""
    amounts = resource_list(container, "requests") | resource_list(container, "limits")
    return {"OMP_NUM_THREADS": str(max(1, amounts["cpu"].ceil()))} if "cpu" in amounts else {}


class Processors(Struct):
    """Binds containers to CPUs where the kernel does not enforce a CPU limit."""

    numbers: Sequence[int]
    _bound: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _load: dict[int, int] = field(default_factory=dict)

    def bind(self, container: str, count: int) -> tuple[int, ...]:
        """Return the least used CPUs, the same for each start of a container; () if it may use all of them.

        `container` is unique in the job, as `POD/CONTAINER`.
        """
        if count >= len(self.numbers):
            return ()
        if container not in self._bound:
            chosen = sorted(self.numbers, key=lambda number: self._load.get(number, 0))[:count]
            for number in chosen:
                self._load[number] = self._load.get(number, 0) + 1
            self._bound[container] = tuple(sorted(chosen))
        return self._bound[container]
