"""A kubelet that only plays: pods run at once, without processes, and end as the test says.

For policies, faults and numbers of pods that no machine would hold. By default every pod runs until the test ends it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from tests.cluster import statuses
from tests.cluster.api import Object
from tests.cluster.cluster import Cluster
from tests.cluster.kubelet import Kubelet

TASK = "volcano.sh/task-spec"
KILLED = 137


@dataclass(frozen=True, slots=True)
class Play:
    """What a pod does: stay Pending, or run and end with `code`.

    It ends after `seconds`, or as soon as `once` holds for the pod and the pods of its namespace; without either, it
    runs until the test ends it. A scenario that must not depend on the speed of the machine uses `once`.
    """

    seconds: float | None = None
    code: int = 0
    reason: str = ""
    pending: bool = False
    fades: float = 0.0  # how long it takes to go when it is deleted
    once: Callable[[Object, Collection[Object]], bool] | None = None


RUNS = Play()
Behaviour = Callable[[Object], Play]


def by_task(plays: Mapping[str, Play], otherwise: Play = RUNS) -> Behaviour:
    return lambda pod: plays.get(pod["metadata"].get("annotations", {}).get(TASK, ""), otherwise)


class PlayedKubelet(Kubelet):
    """Change `behaviour` at any time: it is asked for each pod when that starts."""

    def __init__(
        self, cluster: Cluster, namespace: str, behaviour: Behaviour = lambda _pod: RUNS, *, bind: bool = True
    ) -> None:
        super().__init__(cluster, namespace, bind=bind)
        self.behaviour = behaviour
        self._numbers = itertools.count(2)

    def finish(self, name: str, code: int = 0, reason: str = "") -> None:
        """End the pod of that name with that code."""

        async def finish() -> None:
            await self._finish(self.named(name), code, reason)

        self.ask(finish())

    def binds(self, pod: Object) -> bool:
        return not self.behaviour(pod).pending

    async def live(self, pod: Object) -> None:
        play = self.behaviour(pod)
        if play.pending or pod.get("status", {}).get("phase", "Pending") != "Pending":
            return
        number = next(self._numbers)
        address = f"10.{100 + number // 65536}.{number // 256 % 256}.{number % 256}"
        containers = [statuses.container_status(each, statuses.running(), ready=True) for each in _containers(pod)]
        await self.write(pod, statuses.status(pod, "Running", containers, address=address))
        if play.seconds is None and play.once is None:
            return
        await asyncio.sleep(play.seconds or 0)
        if play.once is not None:
            await self.until(partial(play.once, pod, self.pods.values()))
        await self._finish(pod, play.code, play.reason)

    async def end(self, pod: Object) -> None:
        """Its processes would be killed, and that is written."""
        if life := self._lives.get(pod["metadata"]["uid"]):
            life.cancel()
        await asyncio.sleep(self.behaviour(pod).fades)
        if pod.get("status", {}).get("phase") == "Running":
            await self._finish(pod, KILLED, "")

    async def _finish(self, pod: Object, code: int, reason: str) -> None:
        ended = statuses.terminated(code, reason=reason)
        containers = [statuses.container_status(each, ended) for each in _containers(pod)]
        phase = "Succeeded" if code == 0 else "Failed"
        await self.write(pod, statuses.status(pod, phase, containers, reason=reason if reason == "Evicted" else ""))


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"]["containers"]
    return containers
