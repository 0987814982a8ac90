"""The base class of the test kubelets, which watch the pods of one namespace and write their status.

With `bind`, a kubelet is also the scheduler; otherwise it waits until a pod is bound to a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.cluster.api import Object, path_of
from tests.cluster.async_api import MERGE, AsyncApi
from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import USERS, Cluster

NODE = "test-node"
# Seconds between the end of the containers and the phase of the pod in its status. A real kubelet takes about 1.1.
PHASE_LAG = 0.1


class Kubelet(BackgroundThread):
    def __init__(self, cluster: Cluster, namespace: str, *, bind: bool = True, phase_lag: float = PHASE_LAG) -> None:
        super().__init__()
        self.namespace = namespace
        self.phase_lag = phase_lag
        self.created = 0  # number of pods seen so far
        self.api = AsyncApi(cluster.server, USERS["admin"][0], cluster.tls)
        self.pods: dict[str, Object] = {}  # by uid, in their last version
        self._bind = bind
        self._pod_tasks: dict[str, asyncio.Task[None]] = {}
        self._deleting: set[str] = set()
        self._change = asyncio.Event()  # set, and replaced, with every change of a pod

    async def run_pod(self, pod: Object) -> None:
        """Run a bound pod; cancelled when the pod is gone."""
        raise NotImplementedError

    async def stop_pod(self, pod: Object) -> None:
        """Stop a pod that is being deleted and write its final status."""
        raise NotImplementedError

    async def sync_volumes(self) -> None:
        """Keep the volumes of running pods current until cancelled; a kubelet without processes has none."""

    def evict(self, name: str) -> None:
        """Delete a pod as a drained node would."""
        self.submit(self.api.call_until_done("DELETE", path_of("Pod", self.namespace, name)))

    async def main(self) -> None:
        async with self.api, asyncio.TaskGroup() as tasks:
            tasks.create_task(self.sync_volumes())
            self.mark_ready()
            async for kind, pod in self.api.follow(path_of("Pod", self.namespace)):
                self._handle(kind, pod, tasks)
                self._change.set()
                self._change = asyncio.Event()

    def newest_pod(self, name: str) -> Object:
        """Return the newest pod with this name."""
        pods = [pod for pod in self.pods.values() if pod["metadata"]["name"] == name]
        assert pods, f"no pod {name} among {sorted(pod['metadata']['name'] for pod in self.pods.values())}"
        return pods[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the pods holds, checked at every change of a pod."""
        while not holds():
            await self._change.wait()

    async def write(self, pod: Object, status: Object) -> None:
        # With the uid, so that a newer pod of the same name does not get the status of an older one.
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self.api.call_until_done(
            "PATCH", path_of("Pod", self.namespace, pod["metadata"]["name"], "status"), patch, MERGE
        )

    async def write_end(self, pod: Object, status: Object) -> None:
        """Write the last status: first that the containers have ended, then the phase of the pod, as a kubelet does.

        Reason and message of the pod come with its phase.
        """
        early = {field: value for field, value in status.items() if field not in ("reason", "message")}
        has_run = any("terminated" in container["state"] for container in status["containerStatuses"])
        await self.write(pod, {**early, "phase": "Running" if has_run else "Pending"})
        await asyncio.sleep(self.phase_lag)
        await self.write(pod, status)

    def _handle(self, kind: str, pod: Object, tasks: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.pods.pop(uid, None)
            if task := self._pod_tasks.pop(uid, None):
                task.cancel()
            return
        self.created += uid not in self.pods
        self.pods[uid] = pod
        if pod["metadata"].get("deletionTimestamp"):
            if uid not in self._deleting and pod["spec"].get("nodeName"):
                self._deleting.add(uid)
                tasks.create_task(self._delete_pod(pod))
        elif uid not in self._pod_tasks and self._is_ours(pod):
            self._pod_tasks[uid] = tasks.create_task(self._start_pod(pod))

    def _is_ours(self, pod: Object) -> bool:
        if pod["spec"].get("schedulingGates"):
            return False
        return self._bind or bool(pod["spec"].get("nodeName"))

    async def _start_pod(self, pod: Object) -> None:
        if not pod["spec"].get("nodeName") and self.has_room(pod):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            binding = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": NODE}}
            await self.api.call_until_done("POST", path_of("Pod", self.namespace, name, "binding"), binding)
        await self.run_pod(pod)

    def has_room(self, pod: Object) -> bool:
        """Whether to bind this pod."""
        return bool(pod)

    async def _delete_pod(self, pod: Object) -> None:
        await self.stop_pod(pod)
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self.api.call_until_done("DELETE", path_of("Pod", self.namespace, pod["metadata"]["name"]), options)
