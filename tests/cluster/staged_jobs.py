"""Jobs whose statuses, pods and events are written by hand, as Volcano's controller and a kubelet write them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.cluster.api import Api, Object
from tests.cluster.jobs import a_job
from tests.cluster.pod_status import container_status, running, status, terminated, timestamp, waiting

RUNNING = ("Pending", "Running")


@dataclass(slots=True)
class StagedJob:
    """Posts a Job and sets what is known of it. `spec` adds to its spec, `pod_spec` to that of its pods."""

    api: Api
    namespace: str
    name: str = "train"
    replicas: int = 2
    spec: Object = field(default_factory=dict)
    pod_spec: Object = field(default_factory=dict)
    manifest: Object = field(init=False)

    def __post_init__(self) -> None:
        job = a_job(self.name, self.replicas, maxRetry=3)
        for task in job["spec"]["tasks"]:
            task["template"]["spec"] |= self.pod_spec
        self.manifest = self.api.create("Job", self.namespace, job | {"spec": job["spec"] | self.spec})

    @classmethod
    def of(cls, api: Api, manifest: Object) -> StagedJob:
        """Return a Job that exists."""
        found = cls.__new__(cls)
        metadata, tasks = manifest["metadata"], manifest["spec"]["tasks"]
        found.api, found.namespace, found.name = api, metadata["namespace"], metadata["name"]
        found.replicas, found.manifest = tasks[0]["replicas"], manifest
        return found

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"]["uid"])

    def phases(self, *phases: str, reason: str = "", message: str = "", **counts: object) -> None:
        """Write the status: the conditions are the phases, the last of which is the state."""
        conditions = [{"status": phase, "lastTransitionTime": timestamp()} for phase in phases]
        state = {"phase": phases[-1], "lastTransitionTime": timestamp(), "reason": reason, "message": message}
        found = {"state": state, "conditions": conditions, "minAvailable": self.replicas, **counts}
        self.api.patch("Job", self.namespace, self.name, {"status": found}, "status")

    def pod(
        self, index: int, phase: str, state: Object, *, retry: int = 0, restarts: int = 0, **more: object
    ) -> Object:
        """Create a pod, or find it, and write its status; `more` are fields of the status of its container."""
        name = f"{self.name}-worker-{index}"
        found = self.api.find("Pod", self.namespace, name) or self.create_pod(index, retry)
        container = container_status(found["spec"]["containers"][0], state, ready="running" in state, restarts=restarts)
        about = status(found, phase, [container | more])
        return self.api.patch("Pod", self.namespace, name, {"status": about}, "status")

    def run_pods(self, indexes: Sequence[int] = (0, 1)) -> None:
        for index in indexes:
            self.pod(index, "Running", running())

    def unscheduled_pod(self, index: int, message: str) -> None:
        pod = self.create_pod(index)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        about = {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": timestamp()}]}
        self.api.patch("Pod", self.namespace, pod["metadata"]["name"], {"status": about}, "status")

    def event(self, reason: str, message: str, kind: str = "Warning", about: Object | None = None) -> None:
        """Create an event of the Job, or of another object. Names are in the order of creation, as everywhere."""
        found = about or {"kind": "Job", **self.manifest}
        metadata = found["metadata"]
        subject = {"kind": found["kind"], "namespace": self.namespace, "name": metadata["name"], "uid": metadata["uid"]}
        times = {"firstTimestamp": timestamp(), "lastTimestamp": timestamp(), "count": 1}
        event = {"involvedObject": subject, "type": kind, "reason": reason, "message": message, **times}
        name = f"{metadata['name']}.{time.time_ns():016x}"
        self.api.create("Event", self.namespace, {"metadata": {"name": name}, **event})

    def fail(self) -> None:
        """End the first pod with code 3, and the Job with it, as Volcano does without a policy."""
        self.run_pods()
        self.pod(0, "Failed", terminated(3))
        self.phases(*RUNNING, "Failed", failed=1, running=1)

    @property
    def owner(self) -> Object:
        reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": self.name, "uid": self.uid}
        return {**reference, "controller": True, "blockOwnerDeletion": True}

    def pod_manifest(self, index: int, retry: int = 0) -> Object:
        """Return a pod as Volcano's controller creates it."""
        annotations = {
            "volcano.sh/task-spec": "worker",
            "volcano.sh/task-index": str(index),
            "volcano.sh/job-version": "0",
            "volcano.sh/job-retry-count": str(retry),
        }
        metadata = {
            "name": f"{self.name}-worker-{index}",
            "labels": {"volcano.sh/job-name": self.name, "volcano.sh/task-spec": "worker"},
            "annotations": annotations,
            "ownerReferences": [self.owner],
        }
        # Volcano's scheduler has no part in these tests, and Kubernetes' own leaves such pods alone.
        spec = {"schedulerName": "volcano", **self.manifest["spec"]["tasks"][0]["template"]["spec"]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def create_pod(self, index: int, retry: int = 0) -> Object:
        return self.api.create("Pod", self.namespace, self.pod_manifest(index, retry))


__all__ = ["RUNNING", "StagedJob", "running", "terminated", "timestamp", "waiting"]
