"""The CustomResourceDefinitions: Job and Command, and with Volcano's scheduler its PodGroup and Queue.

Each is a superset of Volcano's own and can be applied over it, with the same names, columns and subresources, while
jobs run. Whoever goes back to Volcano's loses only the fields that Pumice adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pumice.engines.kubernetes.install.job_schema import command_schema, job_schema
from pumice.engines.kubernetes.install.scheduling_schema import pod_group_schema, queue_schema
from pumice.engines.kubernetes.install.structural import Structural
from pumice.model.shape import Schema

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    path: str
    priority: int = 0

    def manifest(self) -> Manifest:
        wide = {"priority": self.priority} if self.priority else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.path, **wide}


@dataclass(frozen=True, slots=True)
class _Definition:
    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    columns: tuple[_Column, ...] = ()
    namespaced: bool = True
    # None where Volcano's definition does not mention subresources at all.
    status: bool | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def manifest(self, schema: Structural) -> Manifest:
        names: Manifest = {"kind": self.kind, "listKind": f"{self.kind}List", "plural": self.plural}
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        names["singular"] = self.kind.lower()
        version: Manifest = {"name": self.version, "served": True, "storage": True}
        if self.columns:
            version["additionalPrinterColumns"] = [column.manifest() for column in self.columns]
        version["schema"] = {"openAPIV3Schema": schema}
        if self.status is not None:
            version["subresources"] = {"status": {}} if self.status else {}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "conversion": {"strategy": "None"},
                "versions": [version],
            },
        }


_AGE: Final = _Column("AGE", "date", ".metadata.creationTimestamp")
_QUEUE_COLUMN: Final = _Column("QUEUE", "string", ".spec.queue", priority=1)
_JOB: Final = _Definition(
    group="batch.volcano.sh",
    version="v1alpha1",
    kind="Job",
    plural="jobs",
    short_names=("vcjob", "vj"),
    columns=(
        _Column("STATUS", "string", ".status.state.phase"),
        _Column("minAvailable", "integer", ".status.minAvailable"),
        _Column("RUNNINGS", "integer", ".status.running"),
        _AGE,
        _QUEUE_COLUMN,
    ),
    status=True,
)
_COMMAND: Final = _Definition(group="bus.volcano.sh", version="v1alpha1", kind="Command", plural="commands")
_POD_GROUP: Final = _Definition(
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "podgroup-v1beta1"),
    columns=(
        _Column("STATUS", "string", ".status.phase"),
        _Column("minMember", "integer", ".spec.minMember"),
        _Column("RUNNINGS", "integer", ".status.running"),
        _AGE,
        _QUEUE_COLUMN,
    ),
    # Volcano's scheduler writes the status together with the rest.
    status=False,
)
_QUEUE: Final = _Definition(
    group="scheduling.volcano.sh",
    version="v1beta1",
    kind="Queue",
    plural="queues",
    short_names=("q", "queue-v1beta1"),
    columns=(_Column("PARENT", "string", ".spec.parent"),),
    namespaced=False,
    status=True,
)


def custom_resources(kubernetes: Schema, *, volcano: bool) -> list[Manifest]:
    """The definitions that a cluster needs; `volcano`: also what Volcano's scheduler works with."""
    manifests = [_JOB.manifest(job_schema(kubernetes)), _COMMAND.manifest(command_schema())]
    if volcano:
        manifests += [_POD_GROUP.manifest(pod_group_schema()), _QUEUE.manifest(queue_schema())]
    return manifests
