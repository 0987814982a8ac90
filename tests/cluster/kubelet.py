"""What the kubelets of the tests share: they follow the pods of one namespace, and write what becomes of them.

With `bind` a kubelet is the scheduler too; without, it waits for pods that someone has bound to a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.cluster.api import Object, path_of
from tests.cluster.async_api import MERGE, AsyncApi
from tests.cluster.background import Background
from tests.cluster.cluster import USERS, Cluster

NODE = "test-node"


class Kubelet(Background):
    def __init__(self, cluster: Cluster, namespace: str, *, bind: bool = True) -> None:
        super().__init__()
        self.namespace = namespace
        self.created = 0  # pods ever seen
        self.api = AsyncApi(cluster.server, USERS["admin"][0], cluster.tls)
        self.pods: dict[str, Object] = {}  # by uid, as last seen
        self._bind = bind
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._going: set[str] = set()
        self._change = asyncio.Event()  # set, and replaced, with every change of a pod

    async def live(self, pod: Object) -> None:
        """A pod that is bound, from its start; cancelled when the pod is gone."""
        raise NotImplementedError

    async def end(self, pod: Object) -> None:
        """A pod that is to go: end what runs of it, and write how that ended."""
        raise NotImplementedError

    def evict(self, name: str) -> None:
        """Delete a pod as a drained node would."""
        self.ask(self.api.persist("DELETE", path_of("Pod", self.namespace, name)))

    async def main(self) -> None:
        async with self.api, asyncio.TaskGroup() as tasks:
            self.begun()
            async for kind, pod in self.api.follow(path_of("Pod", self.namespace)):
                self._see(kind, pod, tasks)
                self._change.set()
                self._change = asyncio.Event()

    def named(self, name: str) -> Object:
        """The newest pod of that name."""
        pods = [pod for pod in self.pods.values() if pod["metadata"]["name"] == name]
        assert pods, f"no pod {name} among {sorted(pod['metadata']['name'] for pod in self.pods.values())}"
        return pods[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds for the pods, looking again at every change of one."""
        while not holds():
            await self._change.wait()

    async def write(self, pod: Object, status: Object) -> None:
        # The uid keeps a namesake that came later from getting the status of an earlier one.
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self.api.persist("PATCH", path_of("Pod", self.namespace, pod["metadata"]["name"], "status"), patch, MERGE)

    def _see(self, kind: str, pod: Object, tasks: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(uid, None)
            if life := self._lives.pop(uid, None):
                life.cancel()
            return
        self.created += uid not in self.pods
        self.pods[uid] = pod
        if pod["metadata"].get("deletionTimestamp"):
            if uid not in self._going and pod["spec"].get("nodeName"):
                self._going.add(uid)
                tasks.create_task(self._go(pod))
        elif uid not in self._lives and self._is_ours(pod):
            self._lives[uid] = tasks.create_task(self._begin(pod))

    def _is_ours(self, pod: Object) -> bool:
        if pod["spec"].get("schedulingGates"):
            return False
        return self._bind or bool(pod["spec"].get("nodeName"))

    async def _begin(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName") and self.binds(pod):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            binding = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": NODE}}
            await self.api.persist("POST", path_of("Pod", self.namespace, name, "binding"), binding)
        await self.live(pod)

    def binds(self, pod: Object) -> bool:
        """Whether there is room for this pod."""
        return bool(pod)

    async def _go(self, pod: Object) -> None:
        await self.end(pod)
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self.api.persist("DELETE", path_of("Pod", self.namespace, pod["metadata"]["name"]), options)
