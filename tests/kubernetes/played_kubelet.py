"""A kubelet that only plays: pods run at once, without processes, and end as the test says.

For policies, faults and numbers of pods that no machine would hold. By default every pod runs until the test ends it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from tests.kubernetes import statuses
from tests.kubernetes.api import Object, path_of
from tests.kubernetes.async_api import MERGE, AsyncApi
from tests.kubernetes.background import Background
from tests.kubernetes.cluster import USERS, Cluster

TASK = "volcano.sh/task-spec"
KILLED = 137


@dataclass(frozen=True, slots=True)
class Play:
    """What a pod does: never start (`pending`), or run for `seconds` (None: until told) and end with `code`."""

    seconds: float | None = None
    code: int = 0
    reason: str = ""
    pending: bool = False
    fades: float = 0.0  # how long it takes to go when it is deleted


RUNS = Play()
Behaviour = Callable[[Object], Play]


def by_task(plays: Mapping[str, Play], otherwise: Play = RUNS) -> Behaviour:
    return lambda pod: plays.get(pod["metadata"].get("annotations", {}).get(TASK, ""), otherwise)


class PlayedKubelet(Background):
    """Of one namespace. With `bind` it is the scheduler too; without, it waits for pods that someone bound."""

    def __init__(
        self, cluster: Cluster, namespace: str, behaviour: Behaviour = lambda _pod: RUNS, *, bind: bool = True
    ) -> None:
        super().__init__()
        self.behaviour = behaviour
        self._namespace = namespace
        self._bind = bind
        self._api = AsyncApi(cluster.server, USERS["admin"][0], cluster.tls)
        self._pods: dict[str, Object] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._going: set[str] = set()
        self._numbers = itertools.count(2)
        self.created = 0  # pods ever seen

    def end(self, name: str, code: int = 0, reason: str = "") -> None:
        """End the pod of that name, if it runs, with that code."""
        self.ask(self._end_named(name, code, reason))

    def evict(self, name: str) -> None:
        """Delete a pod as a drained node would."""
        self.ask(self._api.persist("DELETE", path_of("Pod", self._namespace, name)))

    async def main(self) -> None:
        async with self._api, asyncio.TaskGroup() as tasks:
            self.begun()
            async for kind, pod in self._pods_followed():
                self._see(kind, pod, tasks)

    def _pods_followed(self) -> AsyncIterator[tuple[str, Object]]:
        return self._api.follow(path_of("Pod", self._namespace))

    def _see(self, kind: str, pod: Object, tasks: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._pods.pop(uid, None)
            if life := self._lives.pop(uid, None):
                life.cancel()
            return
        self.created += uid not in self._pods
        self._pods[uid] = pod
        if pod["metadata"].get("deletionTimestamp"):
            if uid not in self._going and pod["spec"].get("nodeName"):
                self._going.add(uid)
                tasks.create_task(self._go(pod))
        elif uid not in self._lives and (self._bind or pod["spec"].get("nodeName")):
            self._lives[uid] = tasks.create_task(self._live(pod))

    async def _live(self, pod: Object) -> None:
        if pod["spec"].get("schedulingGates"):
            del self._lives[pod["metadata"]["uid"]]
            return
        play = self.behaviour(pod)
        if play.pending or pod.get("status", {}).get("phase", "Pending") != "Pending":
            return
        if not pod["spec"].get("nodeName"):
            await self._bind_to_node(pod)
        number = next(self._numbers)
        address = f"10.{100 + number // 65536}.{number // 256 % 256}.{number % 256}"
        containers = [statuses.container_status(each, statuses.running(), ready=True) for each in _containers(pod)]
        await self._write(pod, statuses.status(pod, "Running", containers, address=address))
        if play.seconds is not None:
            await asyncio.sleep(play.seconds)
            await self._end(pod, play.code, play.reason)

    async def _bind_to_node(self, pod: Object) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        binding = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": "played"}}
        await self._api.persist("POST", path_of("Pod", self._namespace, name, "binding"), binding)

    async def _end_named(self, name: str, code: int, reason: str) -> None:
        pods = [pod for pod in self._pods.values() if pod["metadata"]["name"] == name]
        assert pods, f"no pod {name} among {sorted(pod['metadata']['name'] for pod in self._pods.values())}"
        await self._end(pods[-1], code, reason)

    async def _end(self, pod: Object, code: int, reason: str) -> None:
        ended = statuses.terminated(code, reason=reason)
        containers = [statuses.container_status(each, ended) for each in _containers(pod)]
        phase = "Succeeded" if code == 0 else "Failed"
        await self._write(pod, statuses.status(pod, phase, containers, reason=reason if reason == "Evicted" else ""))

    async def _write(self, pod: Object, status: Object) -> None:
        # The uid keeps a namesake that came later from getting the status of an earlier one.
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._api.persist(
            "PATCH", path_of("Pod", self._namespace, pod["metadata"]["name"], "status"), patch, MERGE
        )

    async def _go(self, pod: Object) -> None:
        """Its processes are killed, that is written, and then the pod may go."""
        uid = pod["metadata"]["uid"]
        if life := self._lives.get(uid):
            life.cancel()
        await asyncio.sleep(self.behaviour(pod).fades)
        if pod.get("status", {}).get("phase") == "Running":
            await self._end(pod, KILLED, "")
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.persist("DELETE", path_of("Pod", self._namespace, pod["metadata"]["name"]), options)


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["spec"]["containers"]
    return containers
