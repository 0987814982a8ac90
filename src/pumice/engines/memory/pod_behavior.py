"""What was said about how pods behave: about all, about those of a task, about one. What was said last counts."""

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
    # By whom it is about and then by field, when it was said and what: two ways to look up, however much was said.
    _said: dict[str, dict[str, tuple[int, Any]]] = field(default_factory=dict)
    _words: int = 0

    def say(self, pods: str, fields: Mapping[str, Any]) -> None:
        self._words += 1
        self._said.setdefault(pods, {}).update({name: (self._words, value) for name, value in fields.items()})

    def of(self, pod: ObservedPod) -> Behaviour:
        latest: dict[str, tuple[int, Any]] = {}
        for name in names_of(pod):
            for what, said in self._said.get(name, {}).items():
                if what not in latest or latest[what][0] < said[0]:
                    latest[what] = said
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
    """The words by which a scenario may speak of a pod."""
    return "*", pod.task, pod.short_name
