"""Watches a run for silence: finds out that no pod prints anything any more, and what the pods do meanwhile."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pumice.diagnosis.hang import Hang, PodActivity
from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.kubelet.activity import LOOK, activity, lacks_py_spy
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.kubelet.pod_factory import PodFactory
from pumice.model.pumice_error import PumiceError
from pumice.store.events import Emitter, HangEnded, RunHangs

# Seconds without any output or change after which a run says what its pods do, and for how many of them.
_SILENT: Final = 60.0
_MOST_PODS: Final = 8
_LOOK_SECONDS: Final = 5.0


class HangWatch(Struct):
    """`own_proc`: /proc of a container shows its own processes only. Otherwise pods cannot be distinguished."""

    emit: Emitter
    factory: PodFactory
    pods: Callable[[], Sequence[LocalPod]]
    own_proc: bool = True
    last: Hang | None = None  # what was seen when the pods were last looked at before their end
    _since: float | None = None  # the last sign before the silence that lasts

    @property
    def silent(self) -> float:
        """The seconds since a pod last printed something or changed."""
        return elapsed() - self.factory.last_sign

    async def check(self) -> None:
        """Report a silence once, and its end. Later ones are reported again."""
        sign = self.factory.last_sign
        if self._since is not None and sign > self._since:
            self._since = None
            self.emit(HangEnded())
        if self._since is None and self.silent >= _SILENT and any(pod.is_running for pod in self.pods()):
            hang = await self._look()
            # A pod may have printed something while it was looked at.
            if self.factory.last_sign == sign:
                self._since = sign
                self.emit(RunHangs(hang))

    async def look(self) -> None:
        """Note what each pod does, before the pods of a run that hangs are ended."""
        self.last = await self._look()

    async def _look(self) -> Hang:
        silent = self.silent
        running = [pod for pod in self.pods() if pod.is_running]
        looked_at = running[:_MOST_PODS] if self.own_proc else []
        names = {pod.address: pod.short_name for pod in self.pods() if pod.address}
        doing = await asyncio.gather(*(_activity(pod, names) for pod in looked_at))
        since = wall_clock() - dt.timedelta(seconds=self.silent)
        return Hang(since=since, silent=silent, running=len(running), doing=tuple(doing))


async def _activity(pod: LocalPod, names: Mapping[str, str]) -> PodActivity:
    """`names` are those of pods, by address."""
    container = next((each for each in (*pod.init_containers, *pod.containers) if each.running), None)
    output = ""
    try:
        if container is not None:
            output = (await container.exec(list(LOOK), _LOOK_SECONDS))[1].decode(errors="replace")
    except (PumiceError, OSError, TimeoutError):
        # The image may have no shell, and the container may have ended.
        output = ""
    text = activity(output, lambda address: names.get(address, address))
    return PodActivity(pod.short_name, text, lacks_py_spy(output))
