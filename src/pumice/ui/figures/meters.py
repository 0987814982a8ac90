"""Bars of what is reserved of the machine."""

from __future__ import annotations

from typing import NamedTuple

from pumice.model.units import size_text
from pumice.ui.values import Info
from pumice.ui.words import KIB, cores


class Meter(NamedTuple):
    """`parts` have a position and a width in percent, and who holds how much."""

    name: str
    reserved: str
    capacity: str
    parts: tuple[tuple[float, float, str], ...]


def machine_meters(info: Info) -> tuple[Meter, ...]:
    """Return the meters of CPU and memory, and of GPUs without numbers; of what is not limited there is none."""
    capacity, held = info.capacity, [(each.job, each.resources) for each in info.reserved]
    memory = sum(each.memory for _, each in held) / KIB**3
    gpus = [(job, float(each.gpu_number or 0), str(each.gpu_number or 0)) for job, each in held]
    meters = (
        Meter(
            "CPU",
            cores(sum(each.cpu for _, each in held)),
            cores(capacity.cpu),
            _parts(capacity.cpu, [(job, each.cpu, cores(each.cpu)) for job, each in held]),
        ),
        Meter(
            "Memory",
            f"{memory:.1f}".removesuffix(".0"),
            f"{capacity.memory / KIB**3:.0f} GiB",
            _parts(capacity.memory, [(job, each.memory, size_text(each.memory)) for job, each in held]),
        ),
        Meter(
            "GPU",
            f"{sum(number for _, number, _ in gpus):g}",
            str(capacity.gpu_number),
            _parts(capacity.gpu_number or 0, gpus),
        ),
    )
    limited = (capacity.cpu, capacity.memory, capacity.gpu_number)
    return tuple(meter for meter, limit in zip(meters, limited, strict=True) if limit)


def _parts(capacity: float, held: list[tuple[str, float, str]]) -> tuple[tuple[float, float, str], ...]:
    parts = []
    left = 0.0
    for job, amount, words in held:
        wide = 100 * amount / capacity if capacity else 0.0
        if wide > 0:
            width = max(0.5, round(min(wide, 100 - left) - 0.6, 2))
            parts.append((round(left, 2), width, f"{job or 'other programs'}: {words}"))
        left += wide
    return tuple(parts)


def gpu_owners(info: Info) -> dict[str, str | None]:
    """Return by GPU the run that holds it; None if it is free."""
    owners = {gpu: each.job for each in info.reserved for gpu in each.resources.gpus}
    return {gpu: owners.get(gpu) for gpu in info.capacity.gpus}


def gpu_words(owners: dict[str, str | None]) -> str:
    return "\n".join(f"GPU {gpu}: {'free' if owner is None else owner}" for gpu, owner in owners.items())
