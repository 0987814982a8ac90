"""Measurements of a run on one axis: a line per pod; above 64 pods, quantiles and the outliers."""

from __future__ import annotations

import asyncio
import datetime as dt
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec

from pumice.client.observer import Samples
from pumice.store.sample_file import Sample
from pumice.ui.detail_values import Metric, Metrics, Series

_MOST_LINES: Final = 64
_MOST_OUTLIERS: Final = 6
_POINTS: Final = 240
_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
_MOST_POINTS: Final = 2000  # of a pod that are kept in memory

Values = Sequence[float | None]
_NAN: Final = float("nan")
_LOWEST: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class Limit:
    """What pods may use of a resource, and a limit of the file that they can exceed."""

    amount: float | None = None
    unenforced: float | None = None


NO_LIMIT: Final = Limit()


@dataclass(slots=True)
class PodSeries:
    """What one pod used in one attempt, in columns, because there may be hundreds of thousands of samples."""

    times: array[float] = field(default_factory=lambda: array("d"))  # seconds since 1970
    cpu: array[float] = field(default_factory=lambda: array("f"))
    memory: array[float] = field(default_factory=lambda: array("d"))
    gpu: array[float] = field(default_factory=lambda: array("f"))  # nan if unknown
    gpu_memory: array[float] = field(default_factory=lambda: array("d"))

    def add(self, sample: Sample) -> None:
        if not sample.memory and self.memory and self.memory[-1]:
            return  # no process is left of a pod that was killed, and its end is not recorded yet
        self.times.append(sample.time.timestamp())
        self.cpu.append(sample.cpu)
        self.memory.append(sample.memory)
        self.gpu.append(_NAN if sample.gpu is None else sample.gpu)
        self.gpu_memory.append(sample.gpu_memory if sample.gpus else _NAN)
        if len(self.times) > _MOST_POINTS:
            self.times = self.times[::2]
            self.cpu, self.memory, self.gpu, self.gpu_memory = (
                _halved(each) for each in (self.cpu, self.memory, self.gpu, self.gpu_memory)
            )

    def column(self, name: str) -> array[float]:
        columns = {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu, "gpuMemory": self.gpu_memory}
        return columns[name]

    def last(self, name: str) -> float | None:
        """Return the newest value; None if it was not measured."""
        column = self.column(name)
        return round(column[-1], 3) if column and column[-1] == column[-1] else None

    def peak(self, name: str) -> float | None:
        """Return the highest value; None if none was measured."""
        return max((each for each in self.known(name) if each is not None), default=None)

    def known(self, name: str) -> list[float | None]:
        return [each if each == each else None for each in self.column(name)]  # noqa: PLR0124 - not nan


def _halved(values: array[float]) -> array[float]:
    """Return the higher of each two, so that no peak is lost."""
    pairs = zip(values[::2], values[1::2], strict=False)
    return array(values.typecode, [max(pair) for pair in pairs] + list(values[len(values) // 2 * 2 :]))


UNITS: Final = {"cpu": "cores", "memory": "bytes", "gpu": "percent", "gpuMemory": "bytes"}


@dataclass(slots=True)
class RunSeries:
    """The samples of one run."""

    samples: Samples
    size: int = -1
    series: dict[int, dict[str, PodSeries]] = field(default_factory=dict)  # by attempt and pod

    async def read(self, attempt: int) -> Mapping[str, PodSeries]:
        """Return the samples of an attempt by pod; with attempt 0 those of all attempts. What is new is added."""
        size = await self.samples.size()
        if self.size != size:
            async for part in self.samples.new():
                await asyncio.to_thread(self._add, part)
            self.size = size
        return self.series.get(attempt, {}) if attempt else _merged(self.series)

    def _add(self, samples: Sequence[Sample]) -> None:
        for each in samples:
            self.series.setdefault(each.attempt, defaultdict(PodSeries))[each.pod].add(each)


def _merged(series: Mapping[int, Mapping[str, PodSeries]]) -> dict[str, PodSeries]:
    found: dict[str, PodSeries] = defaultdict(PodSeries)
    for number in sorted(series):
        for pod, each in series[number].items():
            whole = found[pod]
            for name in ("times", "cpu", "memory", "gpu", "gpu_memory"):
                getattr(whole, name).extend(getattr(each, name))
    return found


@dataclass(frozen=True, slots=True)
class _Axis:
    """The steps of a plot. Pods are measured together, so their samples mostly fall into the same steps."""

    begin: float
    width: float
    number: int
    _steps: dict[tuple[float, float, int], list[int]] = field(default_factory=dict)

    def project(self, times: Sequence[float], values: Sequence[float]) -> list[float | None]:
        """Return the highest value of each step; None where nothing was measured."""
        found: list[float | None] = [None] * self.number
        key = (times[0], times[-1], len(times)) if times else (0.0, 0.0, 0)
        steps = self._steps.get(key)
        if steps is None:
            steps = [min(int((time - self.begin) / self.width), self.number - 1) for time in times]
            self._steps[key] = steps
        for step, value in zip(steps, values, strict=True):
            before = found[step]
            # An unknown value is nan, and fails every comparison.
            if value >= _LOWEST and (before is None or value > before):
                found[step] = value
        return _joined(found, times, self.width)


def metrics(
    found: Mapping[str, PodSeries], attempt: int, pod: str, step: float | None, limits: Mapping[str, Limit]
) -> Metrics:
    """Return the plots of all pods, or of one pod beside the others. `limits` are by name of the metric."""
    ends = [(each.times[0], each.times[-1]) for each in found.values() if each.times]
    if not ends:
        return Metrics(attempt=attempt, pod=pod, message="nothing was measured")
    begin, end = min(first for first, _ in ends), max(last for _, last in ends)
    steps = _POINTS if len(found) <= _MOST_LINES else _POINTS // 2
    width = max(step or 0.0, (end - begin) / (steps - 1), 0.1)
    axis = _Axis(begin, width, int((end - begin) / width) + 1)
    shown = []
    for name, unit in UNITS.items():
        if all(each.last(name) is None for each in found.values()):
            continue
        by_pod = {each: axis.project(series.times, series.column(name)) for each, series in found.items()}
        by_pod = {each: values for each, values in by_pod.items() if any(value is not None for value in values)}
        if by_pod:
            limit = limits.get(name, NO_LIMIT)
            empty = Metric(name=name, unit=unit, limit=limit.amount, unenforced=limit.unenforced)
            shown.append(_metric(empty, by_pod, pod))
    moment = dt.datetime.fromtimestamp(begin, dt.UTC)
    return Metrics(attempt=attempt, pod=pod, begin=moment, step=width, metrics=tuple(shown))


def _joined(values: list[float | None], times: Sequence[float], width: float) -> list[float | None]:
    """Fill the steps between two samples, which come less often than there are steps; a longer gap stays one."""
    if None not in values:
        return values
    pauses = sorted(later - earlier for earlier, later in pairwise(times))
    usual = pauses[len(pauses) // 2] if pauses else width
    reach = int(usual * 1.5 / width) + 1
    known = [index for index, value in enumerate(values) if value is not None]
    for index, value in enumerate(values):
        if value is None:
            position = bisect_right(known, index) - 1
            inside = 0 <= position < len(known) - 1 and known[position + 1] - known[position] <= reach
            values[index] = values[known[position]] if inside else None
    return values


def _metric(empty: Metric, by_pod: Mapping[str, Values], pod: str) -> Metric:
    chosen = [Series(pod=pod, points=rounded(by_pod[pod]))] if pod in by_pod else []
    if len(by_pod) <= _MOST_LINES:
        others = [Series(pod=name, points=rounded(values)) for name, values in by_pod.items() if name != pod]
        return msgspec.structs.replace(empty, series=(*chosen, *others))
    columns = [sorted(each for each in column if each is not None) for column in zip(*by_pod.values(), strict=True)]
    low, median, high = (
        [column[min(int(part * len(column)), len(column) - 1)] if column else None for column in columns]
        for part in (_LOW, _MIDDLE, _HIGH)
    )
    far = {name: _outside(values, low, high) for name, values in by_pod.items() if name != pod}
    outliers = [name for name in sorted(far, key=lambda name: -far[name])[:_MOST_OUTLIERS] if far[name] > 0]
    return msgspec.structs.replace(
        empty,
        series=(*chosen, *(Series(pod=name, points=rounded(by_pod[name])) for name in outliers)),
        median=rounded(median),
        low=rounded(low),
        high=rounded(high),
    )


def _outside(values: Values, low: Values, high: Values) -> float:
    """Return how far a pod is outside of the band of the others, in widths of the band."""
    total = 0.0
    for value, bottom, top in zip(values, low, high, strict=True):
        if value is not None and bottom is not None and top is not None:
            width = max(top - bottom, abs(top) * 0.05, 1e-9)
            total += max(0.0, value - top - width, bottom - width - value) / width
    return total


def rounded(values: Values) -> tuple[float | None, ...]:
    return tuple(None if each is None else round(each, 3) for each in values)
