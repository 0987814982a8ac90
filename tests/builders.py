"""Small builders for tests: they fill in what a Job needs but a test does not care about."""

from __future__ import annotations

from typing import Any

from pumice.admission.context import Context
from pumice.model.bare_pod import bare_pod
from pumice.model.findings import Finding
from pumice.model.job import Job, JobSpec, Manifest, Metadata, TaskSpec
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.runtime.kubernetes_types import kubernetes_types

NAMESPACE = "lab"
UID = "8f2c1a04-1111-2222-3333-444455556666"
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "train",
    "uid": UID,
    "controller": True,
    "blockOwnerDeletion": True,
}


def a_container(name: str = "main", **fields: Any) -> Manifest:
    return {"name": name, "image": "example.com/image:1", **fields}


def a_template(*containers: Manifest, **spec: Any) -> Manifest:
    return {"spec": {"containers": list(containers) or [a_container()], **spec}}


def a_task(name: str = "worker", replicas: int = 1, template: Manifest | None = None, **fields: Any) -> TaskSpec:
    return TaskSpec(name=name, replicas=replicas, template=template or a_template(), **fields)


def a_job(*tasks: TaskSpec, metadata: Manifest | None = None, **spec: Any) -> Job:
    """The job `train` as an API server would have stored it, with the defaults that matter to pods."""
    fields = {"name": "train", "namespace": NAMESPACE, "uid": UID, **(metadata or {})}
    filled = {"queue": "default", "scheduler_name": "volcano", **spec}
    return Job(metadata=Metadata(**fields), spec=JobSpec(tasks=list(tasks) or [a_task()], **filled))


def a_slot(job: Job, task: str = "worker", index: int = 0) -> Slot:
    found = job.task(task)
    assert found is not None
    return Slot(job, found, index)


def shaped(plugin: Base, job: Job, task: str = "worker", index: int = 0) -> Pod:
    """The pod of a slot after one plugin."""
    slot = a_slot(job, task, index)
    return plugin.shape_pod(bare_pod(slot), slot)


def env_of(container: Manifest) -> dict[str, Any]:
    """A container's variables with their literal values, in order."""
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def literal(**values: str) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]


def rows(findings: Any) -> list[tuple[str, str, str]]:
    """Findings as (severity, path, message), for comparison with a table."""
    found: list[Finding] = list(findings)
    return [(str(finding.severity), str(finding.path), finding.message) for finding in found]


def a_document(**spec: Any) -> Manifest:
    """A Job as a person writes it, good in every respect."""
    task = {"name": "worker", "replicas": 1, "template": a_template(restartPolicy="Never")}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [task], **spec},
    }


def a_context(registry: Registry | None = None) -> Context:
    return Context(registry or Registry(), kubernetes_types().types)
