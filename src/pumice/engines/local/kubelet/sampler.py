"""Samples what the pods of a run use, while the run lives."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pumice.engines.local.clock import elapsed, now
from pumice.engines.local.kubelet.gpu_use import GpuUse, gpu_use_of, read_gpu_use
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.store.sample_file import Sample, SampledPod, SampleWriter, Usage

_TICK: Final = 1.0
# Seconds after a pod was found to run, for runs that end soon.
_EARLY: Final = (0.0, 1.0, 4.0)
# Seconds between two rounds: in the first hour, later, and once the file has this many bytes.
_OFTEN: Final = 10.0
_SELDOM: Final = 60.0
_RARELY: Final = 600.0
_OFTEN_FOR: Final = 3600.0
_LARGE: Final = 64 << 20
# A measurement answers all requests within this time: over shorter times, the use of a CPU is noise.
_FRESH: Final = 0.5


@dataclass(slots=True)
class Sampler:
    """`pods` are those of the engine; `gpus_of` returns the devices of a pod, by its full name."""

    directory: Path  # of the run
    sandbox: SandboxPort
    pods: Mapping[str, LocalPod]
    gpus_of: Callable[[str], tuple[str, ...]]
    _known: dict[str, SampledPod] = field(default_factory=dict)  # by uid
    _containers: dict[tuple[str, str], float] = field(default_factory=dict)  # CPU time by uid and id of the container
    _cpu: dict[str, float] = field(default_factory=dict)  # CPU time of all containers that a pod had, by uid
    _before: dict[str, tuple[float, float]] = field(default_factory=dict)  # time and CPU time, by uid
    _newest: list[Sample] = field(default_factory=list)
    _measured: float = float("-inf")
    _writer: SampleWriter = field(init=False)
    _measuring: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._writer = SampleWriter(self.directory)

    async def run(self) -> None:
        """Write samples until cancelled: soon after a pod starts, every 10 s for an hour, then every minute."""
        begin = regular = elapsed()
        early: list[float] = []
        seen: set[str] = set()
        try:
            while True:
                await asyncio.sleep(_TICK)
                at = elapsed()
                running = {pod.uid for pod in self.pods.values() if pod.is_running}
                if running - seen:
                    seen |= running
                    # Not for every pod of a job that restarts its pods all the time.
                    early = early or [at + seconds for seconds in _EARLY]
                if running and (at >= regular or (early and at >= early[0])):
                    early = [each for each in early if each > at]
                    size = await self._record()
                    pause = _OFTEN if at - begin < _OFTEN_FOR else _SELDOM
                    if at >= regular:
                        regular = at + (pause if size < _LARGE else _RARELY)
        finally:
            self._writer.close()

    async def fresh(self) -> list[Sample]:
        """Return what the running pods use now; CPUs on average since the measurement before."""
        with suppress(SandboxError, StartError):
            await self._measure()
        return self._newest

    async def _record(self) -> int:
        """Return the size of the file."""
        # Without the sandbox there is no pod. On a full disk the job goes on; what it used meanwhile is not recorded.
        with suppress(SandboxError, StartError, OSError):
            t, time, found = await self._measure()
            return self._writer.append(t, time, found)
        return 0

    async def _measure(self) -> tuple[float, dt.datetime, list[tuple[SampledPod, Usage]]]:
        async with self._measuring:
            has_gpus = any(self.gpus_of(name) for name in self.pods)
            gpus = await read_gpu_use() if has_gpus else {}
            containers = await self.sandbox.usage()
            t, time = elapsed(), now()
            found = self._of_pods(containers, gpus, t)
            if t - self._measured >= _FRESH:
                self._newest = [pod.sample(usage, t, time, self._before.get(pod.uid)) for pod, usage in found]
                self._before = {pod.uid: (t, usage.cpu_seconds) for pod, usage in found}
                self._measured = t
            return t, time, found

    def _of_pods(
        self, containers: Mapping[str, tuple[float, int]], gpus: Mapping[str, GpuUse], t: float
    ) -> list[tuple[SampledPod, Usage]]:
        """Add up the containers of each pod. CPU time never falls, though a container that starts again begins at 0."""
        memory: dict[str, int] = {}
        counted: dict[tuple[str, str], float] = {}
        for name, (cpu, used) in containers.items():
            pod = self.pods.get(name.rpartition("/")[0])
            if pod is not None:
                before = self._containers.get((pod.uid, name), 0.0)
                self._cpu[pod.uid] = self._cpu.get(pod.uid, 0.0) + (cpu - before if cpu >= before else cpu)
                counted[pod.uid, name] = cpu
                memory[pod.uid] = memory.get(pod.uid, 0) + used
        self._containers = counted
        found = []
        for pod in self.pods.values():
            # No process is left of a pod that was killed and whose end is not noticed yet: its last sample counts.
            if memory.get(pod.uid):
                devices = self.gpus_of(pod.name)
                use = gpu_use_of(devices, gpus)
                usage = Usage(self._cpu[pod.uid], memory[pod.uid], len(devices), use.percent, use.memory)
                found.append((self._pod(pod, t), usage))
        existing = {pod.uid for pod in self.pods.values()}
        self._cpu = {uid: cpu for uid, cpu in self._cpu.items() if uid in existing}
        self._known = {uid: pod for uid, pod in self._known.items() if uid in existing}
        return found

    def _pod(self, pod: LocalPod, t: float) -> SampledPod:
        if pod.uid not in self._known:
            age = (now() - pod.started_at).total_seconds()
            self._known[pod.uid] = SampledPod(pod.uid, pod.short_name, pod.attempt, t - max(age, 0.0))
        return self._known[pod.uid]
