"""The behaviour of pods, set for all, for a task or for one pod. The last setting counts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pumice.engines.memory.scenario import Behaviour
from pumice.model.snapshot import ObservedPod


@dataclass(slots=True)
class Behaviours:
    seed: int = 0
    # By selector and field: the number of the setting, and its value.
    _settings: dict[str, dict[str, tuple[int, Any]]] = field(default_factory=dict)
    _count: int = 0

    def set(self, pods: str, fields: Mapping[str, Any]) -> None:
        self._count += 1
        self._settings.setdefault(pods, {}).update({name: (self._count, value) for name, value in fields.items()})

    def of(self, pod: ObservedPod) -> Behaviour:
        latest: dict[str, tuple[int, Any]] = {}
        for name in names_of(pod):
            for what, setting in self._settings.get(name, {}).items():
                if what not in latest or latest[what][0] < setting[0]:
                    latest[what] = setting
        return Behaviour(**{what: value for what, (_, value) in latest.items()})

    def start(self, pod: ObservedPod) -> dt.timedelta:
        return self.of(pod).start.drawn(self._seed(pod, "start"))

    def run(self, pod: ObservedPod) -> dt.timedelta:
        return self.of(pod).run.drawn(self._seed(pod, "run"))

    def stop(self, pod: ObservedPod) -> dt.timedelta:
        return self.of(pod).stop.drawn(self._seed(pod, "stop"))

    def _seed(self, pod: ObservedPod, what: str) -> str:
        return f"{self.seed} {pod.short_name} {pod.version} {pod.retry} {what}"


def names_of(pod: ObservedPod) -> tuple[str, ...]:
    """The selectors that match a pod."""
    return "*", pod.task, pod.short_name
