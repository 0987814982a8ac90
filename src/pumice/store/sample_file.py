"""`samples.bin` of a run: what each pod used of CPUs, memory and GPUs, as fixed records that are only appended.

A round has the time of all samples that follow it. A pod is named once, by as many records as its name needs, and by
its number afterwards. Every record ends with its checksum, so readers skip one that a killed writer left incomplete,
and the next writer removes it.
"""

from __future__ import annotations

import datetime as dt
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec
from msgspec import Struct, field

FILE: Final = "samples.bin"
# Kind, small number, number of 16 bits, number of 32 bits; then the fields of each kind.
_POD: Final = struct.Struct("<BBHId16s")  # kind, bytes of the name, attempt, number of the pod, start, part of its name
_ROUND: Final = struct.Struct("<BBHIdd8x")  # kind, -, -, -, monotonic clock, wall clock
_SAMPLE: Final = struct.Struct("<BBHIQQQ")  # kind, GPUs, GPU use, number of the pod, CPU time, memory, GPU memory
_BODY: Final = _SAMPLE.size
_RECORD: Final = _BODY + 4
_BLOCK: Final = _RECORD << 15
_IS_POD, _IS_ROUND, _IS_SAMPLE = 1, 2, 3
_UNKNOWN: Final = 0xFFFF
_PART: Final = 16
_HUNDREDTHS: Final = 100
_MICROSECONDS: Final = 1e6
_LONG_AGO: Final = dt.datetime.fromtimestamp(0, dt.UTC)


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pod used at one moment. `t` is the monotonic clock of the journal."""

    pod: str
    attempt: int
    time: dt.datetime
    t: float
    cpu: float  # CPUs, on average since the sample before
    cpu_seconds: float  # since the pod started
    memory: int  # bytes
    gpus: int = 0  # devices that the pod has
    gpu: float | None = None  # per cent, on average over its devices; None if the driver does not say it
    gpu_memory: int = 0  # bytes, of all its devices


class Usage(Struct, frozen=True):
    """What a pod has used: CPU time since its start, and what it has now."""

    cpu_seconds: float
    memory: int
    gpus: int = 0
    gpu: float | None = None
    gpu_memory: int = 0


class SampledPod(Struct, frozen=True):
    """`started` is on the monotonic clock. The uid distinguishes pods of one name and one attempt."""

    uid: str
    name: str
    attempt: int
    started: float

    def sample(self, usage: Usage, t: float, time: dt.datetime, before: tuple[float, float] | None) -> Sample:
        """Return a sample. `before` are the monotonic time and the CPU time of the previous one."""
        begin, used = before or (self.started, 0.0)
        return Sample(
            pod=self.name,
            attempt=self.attempt,
            time=time,
            t=t,
            cpu=round(max(0.0, usage.cpu_seconds - used) / max(t - begin, 0.01), 3),
            cpu_seconds=usage.cpu_seconds,
            memory=usage.memory,
            gpus=usage.gpus,
            gpu=usage.gpu,
            gpu_memory=usage.gpu_memory,
        )


class SampleWriter(Struct):
    """Appends rounds to the file of a run. A round is one write."""

    directory: Path
    _descriptor: int = -1
    _numbers: dict[str, int] = field(default_factory=dict)  # of pods, by uid
    _next: int = 0

    def append(self, t: float, time: dt.datetime, found: Sequence[tuple[SampledPod, Usage]]) -> int:
        """Return the size of the file. Raises OSError, as on a full disk; then the round is lost."""
        if self._descriptor < 0:
            # Continue what another process may have begun, without its last record if that is incomplete.
            path = self.directory / FILE
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, size - size % _RECORD)
            self._next = 1 + max((fields[3] for _, fields in _records(path) if fields[0] == _IS_POD), default=-1)
        records = [_ROUND.pack(_IS_ROUND, 0, 0, 0, t, time.timestamp())]
        numbers = dict(self._numbers)
        for pod, usage in found:
            if pod.uid not in numbers:
                numbers[pod.uid] = self._next
                name, attempt = pod.name.encode(), min(pod.attempt, _UNKNOWN)
                for begin in range(0, len(name), _PART):
                    part = name[begin : begin + _PART]
                    records.append(_POD.pack(_IS_POD, len(part), attempt, self._next, pod.started, part))
                self._next += 1
            use = _UNKNOWN if usage.gpu is None else min(int(usage.gpu * _HUNDREDTHS), _UNKNOWN - 1)
            cpu = max(0, int(usage.cpu_seconds * _MICROSECONDS))
            more = (use, numbers[pod.uid], cpu, max(0, usage.memory), max(0, usage.gpu_memory))
            records.append(_SAMPLE.pack(_IS_SAMPLE, min(usage.gpus, 255), *more))
        content = b"".join(body + crc32(body).to_bytes(4, "little") for body in records)
        size = os.fstat(self._descriptor).st_size
        written = 0
        try:
            written = os.write(self._descriptor, content)
        finally:
            if written < len(content):
                os.ftruncate(self._descriptor, size)
        if written == len(content):
            self._numbers = numbers
        return size + written

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class SampleReader(Struct):
    """Reads the samples of a run in passes: each pass continues where the last one ended."""

    directory: Path
    _offset: int = 0
    _pods: dict[int, SampledPod] = field(default_factory=dict)
    _before: dict[int, tuple[float, float]] = field(default_factory=dict)  # monotonic time and CPU time, by number
    _t: float = 0.0
    _time: dt.datetime = _LONG_AGO

    def read(self) -> Iterator[Sample]:
        """Yield the samples that are new since the last pass, in the order of time."""
        for begin, fields in _records(self.directory / FILE, self._offset):
            self._offset = begin + _RECORD
            if fields[0] == _IS_ROUND:
                if fields[4] < self._t:
                    # The machine was restarted, and with it the monotonic clock.
                    self._before.clear()
                self._t, self._time = fields[4], dt.datetime.fromtimestamp(fields[5], dt.UTC)
            elif fields[0] == _IS_POD:
                _, length, tried, number, started, part = fields
                name = self._pods[number].name if number in self._pods else ""
                name += part[:length].decode(errors="replace")
                self._pods[number] = SampledPod(str(number), name, tried, started)
            elif known := self._pods.get(fields[3]):
                _, gpus, use, number, cpu, memory, gpu_memory = fields
                gpu = None if use == _UNKNOWN else use / _HUNDREDTHS
                usage = Usage(cpu / _MICROSECONDS, memory, gpus, gpu, gpu_memory)
                yield known.sample(usage, self._t, self._time, self._before.get(number))
                self._before[number] = (self._t, usage.cpu_seconds)


def read_samples(
    directory: Path, pod: str | None = None, attempt: int | None = None, since: float = float("-inf")
) -> list[Sample]:
    """Return the samples of a run, in the order of time: of one pod, of one attempt, or of all.

    `since` is a time of the monotonic clock: only newer samples are returned.
    """
    return [
        each
        for each in SampleReader(directory).read()
        if pod in (None, each.pod) and attempt in (None, each.attempt) and each.t > since
    ]


def _records(path: Path, offset: int = 0) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield offset and fields of the whole records, which depend on their kind; damaged ones are skipped."""
    kinds = {_IS_POD: _POD, _IS_ROUND: _ROUND, _IS_SAMPLE: _SAMPLE}
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while len(content := file.read(_BLOCK)) >= _RECORD:
                for begin in range(0, len(content) - _RECORD + 1, _RECORD):
                    body = content[begin : begin + _BODY]
                    kind, checksum = kinds.get(body[0]), content[begin + _BODY : begin + _RECORD]
                    if kind is not None and crc32(body) == int.from_bytes(checksum, "little"):
                        yield offset + begin, kind.unpack(body)
                offset += len(content)
    except FileNotFoundError:
        return
