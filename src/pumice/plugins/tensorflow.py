"""tensorflow: gives each pod of a TensorFlow job its TF_CONFIG.

Every container and init container gets TF_CONFIG (the hosts of all roles, and the pod's own role and index), and every
container opens the port. A job of a single pod is unchanged: it needs no cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import naming
from pumice.model.findings import SPEC, Finding, warning
from pumice.model.job import Job
from pumice.model.pod import Pod, env_values
from pumice.model.slot import Slot
from pumice.model.text import listed, some
from pumice.plugins.base import Base, option, port_option
from pumice.plugins.limits import too_long

VARIABLE: Final = "TF_CONFIG"
PORT_NAME: Final = "tfjob-port"


@dataclass(frozen=True, slots=True)
class TensorFlow(Base):
    name: ClassVar[str] = "tensorflow"
    summary: ClassVar[str] = "gives each pod of a TensorFlow job its TF_CONFIG"
    requires: ClassVar[tuple[str, ...]] = ("svc",)
    example: ClassVar[tuple[str, ...]] = ("--ps=ps", "--worker=worker", "--port=2222")

    ps: str = option("ps", "task of the parameter servers")
    worker: str = option("worker", "task of the workers")
    chief: str = option("chief", "task of the chief")
    evaluator: str = option("evaluator", "task of the evaluator")
    port: int = port_option(2222, "port that every pod listens on")

    def check(self, job: Job) -> Iterator[Finding]:
        at = SPEC / "plugins" / self.name
        roles = list(self._roles())
        if not _is_single_pod(job) and not any(job.task(name) for name in roles):
            yield warning(
                at,
                f"no task is named {listed(roles)}, so TF_CONFIG lists no host",
                hint=f"name a task with --worker=<{some(job.task_names, '|')}>",
            )
        yield from too_long(job, at, VARIABLE, self._longest)

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if _is_single_pod(slot.job):
            return pod
        config = self._config(slot.job, slot.task.name, slot.index)
        return pod.with_port(PORT_NAME, self.port).with_env(env_values({VARIABLE: config}))

    def why(self, slot: Slot) -> Mapping[str, str]:
        role = self._roles().get(slot.task.name)
        return {
            f"env {VARIABLE}": f"role {role}, index {slot.index}"
            if role
            else "the cluster; this pod has no role in it",
            f"port {self.port}": "--port",
        }

    def _roles(self) -> dict[str, str]:
        """Return the roles by task name, in the order of TF_CONFIG."""
        return {self.ps: "ps", self.worker: "worker", self.chief: "chief", self.evaluator: "evaluator"}

    def _config(self, job: Job, task: str, index: int) -> str:
        cluster = job.derived((self, "cluster"), self._cluster)
        own = json.dumps({"type": self._roles().get(task, task), "index": index}, separators=(",", ":"))
        return f'{{"cluster":{cluster},"task":{own}}}'

    def _longest(self, job: Job) -> int:
        return max(len(self._config(job, task.name, max(task.replicas - 1, 0))) for task in job.spec.tasks)

    def _cluster(self, job: Job) -> str:
        cluster = {}
        for name, role in self._roles().items():
            task = job.task(name)
            if task is not None and task.replicas > 0:
                cluster[role] = [f"{host}:{self.port}" for host in naming.hosts(job, task)]
        return json.dumps(cluster, separators=(",", ":"))


def _is_single_pod(job: Job) -> bool:
    return len(job.spec.tasks) == 1 and job.total_replicas == 1
