"""Whether a gang of pods fits this machine, what is short if it does not, and which pod gets which GPUs.

A pod wants what it requests; where a container has limits alone, those are its requests, as an API server has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pumice.model.job import Manifest
from pumice.model.quantity import Quantity
from pumice.model.resources import Usage, pod_usage, resource_list

GPU: Final = "nvidia.com/gpu"
_CORE: Final = ("cpu", "memory")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024


def wanted(spec: Manifest) -> Usage:
    """What a pod with this spec takes of the machine: cpu, memory and whatever devices it names."""
    filled: Manifest = {**_filled(spec)}
    for kind in ("containers", "initContainers"):
        filled[kind] = [_filled(container) for container in spec.get(kind) or []]
    usage = pod_usage(filled)
    return {
        name: amount
        for name, amount in usage.items()
        if (name in _CORE or _is_device(name)) and not amount.is_zero and not amount.is_negative
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One resource: what all pods of the gang want of it together, and what is free."""

    name: str
    wanted: Quantity
    free: Quantity

    @property
    def short(self) -> Quantity:
        return max(self.wanted - self.free, Quantity())


@dataclass(frozen=True, slots=True)
class Fit:
    pods: int  # that have to run at once
    fitting: int  # of them, at once
    rows: tuple[Row, ...]

    @property
    def fits(self) -> bool:
        return self.fitting == self.pods

    @property
    def short(self) -> tuple[str, ...]:
        """The resources of which there is too little."""
        return tuple(row.name for row in self.rows if not row.short.is_zero)


def fit(gang: Sequence[Mapping[str, Quantity]], free: Mapping[str, Quantity]) -> Fit:
    """Whether the pods fit what is free, all at once. What the machine has not heard of, it has none of."""
    left = dict(free)
    fitting = 0
    total: Usage = {}
    for usage in gang:
        if all(amount <= left.get(name, Quantity()) for name, amount in usage.items()):
            fitting += 1
            left.update({name: left[name] - amount for name, amount in usage.items()})
        for name, amount in usage.items():
            total[name] = total.get(name, Quantity()) + amount
    rows = tuple(Row(name, amount, free.get(name, Quantity())) for name, amount in sorted(total.items(), key=_first))
    return Fit(len(gang), fitting, rows)


def shortfall(fit: Fit) -> list[str]:
    """The table of what is wanted, free and short, for people."""
    cells = [("", "wanted", "free", "short")]
    for row in fit.rows:
        short = "-" if row.short.is_zero else amount_text(row.name, row.short)
        cells.append((row.name, amount_text(row.name, row.wanted), amount_text(row.name, row.free), short))
    names = max(len(row[0]) for row in cells)
    return [f"  {name:<{names}}{wanted:>12}{free:>9}{short:>9}" for name, wanted, free, short in cells]


def amount_text(name: str, amount: Quantity) -> str:
    if name == "cpu":
        return f"{amount.milli_value() / 1000:.2f}"
    return size_text(amount.value()) if name == "memory" else str(amount.value())


def size_text(size: int) -> str:
    """Bytes as people read them: `16 GiB`, `1.5 GiB`."""
    unit = 0
    while size >= _STEP ** (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    return f"{size / _STEP**unit:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"


def container_gpus(container: Manifest) -> int:
    """How many whole GPUs the container is given."""
    amounts = resource_list(container, "limits") | resource_list(container, "requests")
    return max(0, amounts.get(GPU, Quantity()).value())


def gpu_shares(spec: Manifest, gpus: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The pod's GPUs, by container. Init containers have gone when the others come, so they may have the same ones."""
    shares: dict[str, tuple[str, ...]] = {}
    beside = 0  # sidecars stay, and so do theirs
    for container in spec.get("initContainers") or []:
        count = container_gpus(container)
        shares[str(container["name"])] = tuple(gpus[beside : beside + count])
        if container.get("restartPolicy") == "Always":
            beside += count
    for container in spec.get("containers") or []:
        count = container_gpus(container)
        shares[str(container["name"])] = tuple(gpus[beside : beside + count])
        beside += count
    return shares


def gpu_env(ids: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"), ",".join(ids))


def _filled(owner: Manifest) -> Manifest:
    """The container, or the pod, with its limits as requests where it makes none."""
    resources: Mapping[str, Any] = owner.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return {**owner, "resources": {**resources, "requests": {**limits, **requests}}} if limits else owner


def _is_device(name: str) -> bool:
    return "/" in name and not name.startswith(("count/", "requests.", "limits."))


def _first(item: tuple[str, Quantity]) -> tuple[int, str]:
    name = item[0]
    return (_CORE.index(name) if name in _CORE else len(_CORE), name)
