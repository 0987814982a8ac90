"""Measurements as lines: paths, the scale of a plot, and the words beside it; and bars of what is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pumice.model.units import size_text
from pumice.ui.detail_values import Metric, Metrics, Series
from pumice.ui.values import Info
from pumice.ui.words import KIB, cores

NAMES: Final = {"cpu": "CPU", "memory": "Memory", "gpu": "GPU busy", "gpuMemory": "GPU memory"}
UNITS: Final = {"cores": "cores", "bytes": "GiB", "percent": "%"}
LEAST_GIB: Final = 0.1  # smaller values are in MiB
LEAST_CORES: Final = 0.1  # smaller values get another digit
MINIS: Final = 3
HOT: Final = 0.95  # of the limit: the value is drawn as a cause
Points = Sequence[float | None]


def line_path(points: Points, top: float, width: float, height: float) -> str:
    """Return the path of a line; None leaves a gap."""
    step = width / max(1, len(points) - 1)
    parts: list[str] = []
    pen = "M"
    for index, value in enumerate(points):
        if value is None:
            pen = "M"
            continue
        y = height - height * max(0.0, min(1.0, value / top if top else 0.0))
        parts.append(f"{pen}{index * step:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def area_path(points: Points, top: float, width: float, height: float) -> str:
    """Return the path of the surface below a line."""
    known = [0.0 if value is None else value for value in points]
    return f"{line_path(known, top, width, height)}L{width:.1f} {height:.1f}L0 {height:.1f}Z" if known else ""


def band_path(metric: Metric, top: float) -> str:
    """Return the path of the surface between the 5th and the 95th percentile."""
    forward = line_path(metric.high, top, 300, 60)
    step = 300 / max(1, len(metric.low) - 1)
    back = [
        f"L{index * step:.1f} {60 - 60 * min(1.0, (metric.low[index] or 0.0) / top):.1f}"
        for index in range(len(metric.low) - 1, -1, -1)
    ]
    return f"{forward}{''.join(back)}Z" if forward else ""


def limit_path(limit: float | None, top: float, width: int, height: int) -> str:
    """Return the path of the line at the limit."""
    return f"M0 {height - height * limit / top:.1f}H{width}" if limit else ""


def highest(points: Points) -> float:
    """Return the highest known point, or 0."""
    return max((value for value in points if value is not None), default=0.0)


def last_point(points: Points) -> float | None:
    """Return the last known point."""
    return next((value for value in reversed(points) if value is not None), None)


def spark_top(points: Points, limit: float | None) -> float:
    """Return the scale of a small line; 0 if nothing is known."""
    known = any(value is not None for value in points)
    return (max(highest(points) * 1.15, limit or 0.0) or 1.0) if known else 0.0


def plot_top(metric: Metric) -> float:
    """Return the scale of a plot with a line for each pod."""
    return max([metric.limit or 0.0, *(highest(each.points) * 1.05 for each in metric.series)]) or 1.0


def band_top(metric: Metric) -> float:
    """Return the scale of a plot of percentiles."""
    lines = (highest(each.points) for each in metric.series)
    return max([metric.limit or 0.0, highest(metric.high) * 1.1, *lines]) or 1.0


def is_hot(value: float | None, limit: float | None) -> bool:
    return limit is not None and value is not None and value >= HOT * limit


class OnePod(NamedTuple):
    """The lines of one pod and of the others, and the words about them. `here` is None if the pod was not measured."""

    others: list[Series]
    chosen: Series | None
    here: float | None
    range: str


def one_pod(metric: Metric, pod: str, *, killed: bool) -> OnePod:
    """`killed`: the pod was killed for its memory, so its peak is named, not what it had last."""
    others = [each for each in metric.series if each.pod != pod]
    chosen = next((each for each in metric.series if each.pod == pod), None)
    values = [value for each in others if (value := last_point(each.points)) is not None]
    found = highest if killed and metric.name == "memory" else last_point
    words = f"{value_words(min(values), metric.unit)} to {value_words(max(values), metric.unit)}" if values else ""
    return OnePod(others, chosen, found(chosen.points) if chosen else None, words)


def small_plots(metrics: Metrics) -> list[Metric]:
    """Return the measurements that the overview shows."""
    return [each for each in metrics.metrics if each.name != "gpu" or len(metrics.metrics) <= MINIS][:MINIS]


def measured_pods(metrics: Metrics) -> list[str]:
    return list(dict.fromkeys(each.pod for metric in metrics.metrics for each in metric.series))


def measured_seconds(metrics: Metrics) -> float:
    points = max((len(each.points) for metric in metrics.metrics for each in metric.series), default=0)
    return points * metrics.step


def metric_name(metric: Metric) -> str:
    return NAMES.get(metric.name, metric.name)


def value_words(value: float | None, unit: str) -> str:
    """Return a value in the unit of its plot, without the unit: `11.8`; less than 0.1 GiB as `12 MiB`."""
    if value is None:
        return "–"
    if unit == "bytes":
        amount = value / KIB**3
        return f"{amount:.1f}" if amount >= LEAST_GIB or not value else f"{value / KIB**2:.0f} MiB"
    return f"{value:.0f}%" if unit == "percent" else f"{value:.2f}" if 0 < value < LEAST_CORES else f"{value:.1f}"


def limit_words(metric: Metric) -> str:
    """Return `cores, of 6`, or `cores; limit 0.5 is not enforced`."""
    unit, limit = UNITS.get(metric.unit, metric.unit), metric.limit if metric.unenforced is None else metric.unenforced
    if limit is None:
        return unit
    amount = f"{limit / KIB**3:.4g}" if metric.unit == "bytes" else cores(limit)
    return f"{unit}, of {amount}" if metric.unenforced is None else f"{unit}; limit {amount} is not enforced"


# --- what is reserved of the machine ----------------------------------------------------------------------------------


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
    cpu, sizes = cores(sum(each.cpu for _, each in held)), f"{memory:.1f}".removesuffix(".0")
    devices = f"{sum(number for _, number, _ in gpus):g}"
    by_cpu = _parts(capacity.cpu, [(job, each.cpu, cores(each.cpu)) for job, each in held])
    by_size = _parts(capacity.memory, [(job, each.memory, size_text(each.memory)) for job, each in held])
    meters = (
        Meter("CPU", cpu, cores(capacity.cpu), by_cpu),
        Meter("Memory", sizes, f"{capacity.memory / KIB**3:.0f} GiB", by_size),
        Meter("GPU", devices, str(capacity.gpu_number), _parts(capacity.gpu_number or 0, gpus)),
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
