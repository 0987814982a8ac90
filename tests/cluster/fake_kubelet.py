"""A kubelet without processes: pods run at once and end as the test says; by default they run until it ends them.

For policies, failures, and more pods than one machine can run.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from tests.cluster import pod_status
from tests.cluster.api import Object
from tests.cluster.cluster import Cluster
from tests.cluster.kubelet import PHASE_LAG, Kubelet

KILLED = 137


@dataclass(frozen=True, slots=True)
class PodScript:
    """What a pod does: stay Pending, or run and end with `code`.

    It ends after `seconds`, or as soon as `ends_when` holds for the pod and all pods of its namespace; without either,
    it runs until the test ends it. `ends_when` does not depend on the speed of the machine.
    """

    seconds: float | None = None
    code: int = 0
    reason: str = ""
    pending: bool = False
    deletion_seconds: float = 0.0  # how long its deletion takes
    ends_when: Callable[[Object, Collection[Object]], bool] | None = None


RUN_UNTIL_STOPPED = PodScript()
Behaviour = Callable[[Object], PodScript]


class FakeKubelet(Kubelet):
    """`behaviour` is called when a pod starts, and may be replaced at any time."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        behaviour: Behaviour = lambda _pod: RUN_UNTIL_STOPPED,
        *,
        bind: bool = True,
        phase_lag: float = PHASE_LAG,
    ) -> None:
        super().__init__(cluster, namespace, bind=bind, phase_lag=phase_lag)
        self.behaviour = behaviour
        self._numbers = itertools.count(2)

    def finish(self, name: str, code: int = 0, reason: str = "") -> None:
        """End a pod with this exit code."""

        async def finish() -> None:
            await self._finish(self.newest_pod(name), code, reason)

        self.submit(finish())

    def evict_over_limit(self, name: str, message: str) -> None:
        """Fail a pod that uses too much, as a kubelet does: the pod says why, its containers were killed."""

        async def evict() -> None:
            pod = self.newest_pod(name)
            containers = [pod_status.container_status(each, pod_status.terminated(KILLED)) for each in _containers(pod)]
            written = pod_status.status(pod, "Failed", containers, reason="Evicted")
            await self.write(pod, {**written, "message": message})

        self.submit(evict())

    def show(self, name: str, state: Object, *, restarts: int = 0) -> None:
        """Write this state of all containers of a pod, such as `pod_status.waiting("ErrImagePull")`."""

        async def show() -> None:
            pod = self.newest_pod(name)
            runs = "running" in state
            containers = [
                pod_status.container_status(each, state, ready=runs, restarts=restarts) for each in _containers(pod)
            ]
            phase = "Running" if runs or restarts else "Pending"
            await self.write(pod, pod_status.status(pod, phase, containers))

        self.submit(show())

    def has_room(self, pod: Object) -> bool:
        return not self.behaviour(pod).pending

    async def run_pod(self, pod: Object) -> None:
        script = self.behaviour(pod)
        if script.pending or pod.get("status", {}).get("phase", "Pending") != "Pending":
            return
        number = next(self._numbers)
        address = f"10.{100 + number // 65536}.{number // 256 % 256}.{number % 256}"
        containers = [pod_status.container_status(each, pod_status.running(), ready=True) for each in _containers(pod)]
        await self.write(pod, pod_status.status(pod, "Running", containers, address=address))
        if script.seconds is None and script.ends_when is None:
            return
        await asyncio.sleep(script.seconds or 0)
        if script.ends_when is not None:
            await self.until(partial(script.ends_when, pod, self.pods.values()))
        await self._finish(pod, script.code, script.reason)

    async def stop_pod(self, pod: Object) -> None:
        if task := self._pod_tasks.get(pod["metadata"]["uid"]):
            task.cancel()
        await asyncio.sleep(self.behaviour(pod).deletion_seconds)
        if pod.get("status", {}).get("phase") == "Running":
            await self._finish(pod, KILLED, "")

    async def _finish(self, pod: Object, code: int, reason: str) -> None:
        ended = pod_status.terminated(code, reason=reason)
        containers = [pod_status.container_status(each, ended) for each in _containers(pod)]
        phase = "Succeeded" if code == 0 else "Failed"
        ended_pod = pod_status.status(pod, phase, containers, reason=reason if reason == "Evicted" else "")
        await self.write_end(pod, ended_pod)


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"]["containers"]
    return containers
