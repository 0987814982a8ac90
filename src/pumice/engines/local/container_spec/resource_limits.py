"""What a container may use of the machine: its limits as the sandbox wants them, its processors, its threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumice.model.job import Manifest
from pumice.model.quantity import Quantity


def memory_limit(container: Manifest) -> int | None:
    limit = _amount(container, "limits", "memory")
    return None if limit is None else limit.value()


def cpu_limit(container: Manifest) -> float | None:
    """How many processors it may keep busy, possibly a fraction."""
    limit = _amount(container, "limits", "cpu")
    return None if limit is None else limit.milli_value() / 1000


def threads_env(container: Manifest) -> dict[str, str]:
    """Libraries start as many threads as the machine has processors, which slows a pod down that may use but a few."""
    amount = _amount(container, "limits", "cpu") or _amount(container, "requests", "cpu")
    return {} if amount is None else {"OMP_NUM_THREADS": str(max(1, amount.ceil()))}


@dataclass(slots=True)
class Processors:
    """Binds containers to processors where the kernel does not limit their share: evenly, and always to the same."""

    numbers: Sequence[int]
    _bound: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _load: dict[int, int] = field(default_factory=dict)

    def bind(self, container: str, count: int) -> tuple[int, ...]:
        """`container` is the name of it and its pod. Empty if it may use them all anyway."""
        if count >= len(self.numbers):
            return ()
        if container not in self._bound:
            chosen = sorted(self.numbers, key=lambda number: self._load.get(number, 0))[:count]
            for number in chosen:
                self._load[number] = self._load.get(number, 0) + 1
            self._bound[container] = tuple(sorted(chosen))
        return self._bound[container]


def _amount(container: Manifest, kind: str, name: str) -> Quantity | None:
    amounts: Mapping[str, object] = (container.get("resources") or {}).get(kind) or {}
    return None if amounts.get(name) is None else Quantity.parse(amounts[name])
