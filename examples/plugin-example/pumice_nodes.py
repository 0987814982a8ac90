"""nodes: sets a rank in each pod of a job, and the list of all hosts.

Every container and init container gets NODE_RANK (0, 1, ... in the order of the tasks), NUM_NODES and NODE_LIST, for
launchers that do not support tasks. Requires svc, so that the hosts resolve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pumice import Base, Finding, Job, Path, Pod, Slot, env_values, option


@dataclass(frozen=True, slots=True)
class Nodes(Base):
    name: ClassVar[str] = "nodes"
    summary: ClassVar[str] = "sets a rank in each pod of a job, and the list of all hosts"
    requires: ClassVar[tuple[str, ...]] = ("svc",)
    example: ClassVar[tuple[str, ...]] = ("--prefix=MY_", "--separator=space")

    prefix: str = option("", "prefix of the names of the variables")
    separator: str = option("comma", "separator between the hosts", choices=("comma", "space"))

    def check(self, job: Job) -> Iterator[Finding]:
        if job.total_replicas == 0:
            yield Finding(Path(("spec", "plugins", self.name)), "there are no pods to number")

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        hosts = [_host(node) for node in _nodes(slot.job)]
        rank = hosts.index(_host(slot))
        values = {"NODE_RANK": str(rank), "NUM_NODES": str(len(hosts)), "NODE_LIST": self._joined(hosts)}
        return pod.with_env(env_values({f"{self.prefix}{name}": value for name, value in values.items()}))

    def why(self, slot: Slot) -> Mapping[str, str]:
        rank = f"index of {slot.short_name} in NODE_LIST"
        reasons = {"NODE_RANK": rank, "NUM_NODES": "pods of all tasks", "NODE_LIST": "hosts of all tasks"}
        return {f"env {self.prefix}{name}": reason for name, reason in reasons.items()}

    def _joined(self, hosts: list[str]) -> str:
        return {"comma": ",", "space": " "}[self.separator].join(hosts)


def _nodes(job: Job) -> Iterator[Slot]:
    return (Slot(job, task, index) for task in job.spec.tasks for index in range(task.replicas))


def _host(slot: Slot) -> str:
    return f"{slot.hostname}.{slot.subdomain}"
