"""Where each part of a pod comes from: the user, the job, or a plugin, and why.

Computed by comparing the pod before and after each plugin, so it always agrees with the pod that is created.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from pumice.model import keys
from pumice.model.bare_pod import bare_pod
from pumice.model.findings import SPEC, Path
from pumice.model.job import Manifest
from pumice.model.pod import Pod, containers_with_paths
from pumice.model.slot import Slot
from pumice.plugins.base import Base

YOU: Final = "you"
JOB: Final = "job"

_JOB_REASONS: Final = {
    f"label {keys.JOB_NAME}": "the Service and dashboards find the pod by it",
    f"label {keys.JOB_NAMESPACE}": "the Service finds the pod by it",
    f"label {keys.TASK_SPEC}": "the task",
    f"label {keys.TASK_INDEX}": "index within the task",
    f"label {keys.QUEUE_NAME}": "spec.queue",
    f"label {keys.PARTITION_ID}": "partition of the task",
    f"annotation {keys.POD_GROUP}": "the gang that the pod starts with",
    f"annotation {keys.VOLCANO_POD_GROUP}": "the gang that the pod starts with",
    f"annotation {keys.JOB_VERSION}": "distinguishes pods of an earlier run",
    f"annotation {keys.JOB_RETRY_COUNT}": "restarts so far",
    f"annotation {keys.TEMPLATE_UID}": "the template",
    f"annotation {keys.QUEUE_NAME}": "spec.queue",
    f"annotation {keys.JOB_NAME}": "the job",
    f"annotation {keys.TASK_SPEC}": "the task",
    f"annotation {keys.TASK_INDEX}": "index within the task",
    "schedulerName": "spec.schedulerName",
    "priorityClassName": "spec.priorityClassName",
}


# Kind, container and name of a part of a pod; its value; and its path in a template.
_Value: TypeAlias = tuple[tuple[str, str, str], object, Sequence[str | int]]


class Trace(Struct, frozen=True):
    """One part of a pod, and where it comes from."""

    kind: str
    container: str  # empty if it belongs to the pod
    name: str
    value: str
    by: str
    why: str = ""
    path: Path | None = None  # in the user's document

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.container, self.name


def trace_pod(slot: Slot, position: int, plugins: Sequence[Base]) -> list[Trace]:
    """Trace the pod of a slot; `position` is the index of its task in the job."""
    at = SPEC / "tasks" / position / "template"
    template = Pod({"metadata": slot.task.template.get("metadata") or {}, "spec": slot.task.pod_spec})
    known = {trace.key: trace for trace in _parts(template, YOU, at, {})}
    pod = bare_pod(slot)
    _add(known, _parts(pod, JOB, None, _JOB_REASONS))
    for plugin in plugins:
        pod = plugin.shape_pod(pod, slot)
        _add(known, _parts(pod, plugin.name, None, plugin.why(slot)))
    return list(known.values())


def _add(known: dict[tuple[str, str, str], Trace], parts: Iterator[Trace]) -> None:
    """Record new parts, and those whose value changed."""
    for part in parts:
        if part.key not in known or known[part.key].value != part.value:
            known[part.key] = part


def _parts(pod: Pod, by: str, at: Path | None, why: Mapping[str, str]) -> Iterator[Trace]:
    for (kind, container, name), value, path in _values(pod):
        reason = why.get(f"{kind} {name}" if name else kind, "")
        yield Trace(kind, container, name, _text(value), by, reason, None if at is None else Path((*at, *path)))


def _values(pod: Pod) -> Iterator[_Value]:
    metadata = pod.manifest["metadata"]
    for kind, field in (("label", "labels"), ("annotation", "annotations")):
        for name, value in (metadata.get(field) or {}).items():
            yield (kind, "", name), value, ("metadata", field, name)
    for field in ("hostname", "subdomain", "schedulerName", "schedulingGroup", "priorityClassName"):
        if pod.spec.get(field):
            yield (field, "", ""), pod.spec[field], ("spec", field)
    for index, volume in enumerate(pod.spec.get("volumes") or []):
        source = next((key for key in volume if key != "name"), "")
        yield ("volume", "", volume["name"]), source, ("spec", "volumes", index)
    for index, container in enumerate(pod.init_containers):
        yield ("init", "", container["name"]), container.get("image", ""), ("spec", "initContainers", index)
    for here, container in containers_with_paths(pod.spec, SPEC):
        yield from _values_of_container(container, here)


def _values_of_container(container: Manifest, at: Path) -> Iterator[_Value]:
    owner = container["name"]
    if container.get("command"):
        yield ("command", owner, ""), " ".join(map(str, container["command"])), at / "command"
    for index, variable in enumerate(container.get("env") or []):
        value = variable.get("value", variable.get("valueFrom", ""))
        yield ("env", owner, variable["name"]), value, at / "env" / index
    for index, port in enumerate(container.get("ports") or []):
        yield ("port", owner, str(port["containerPort"])), port.get("name", ""), at / "ports" / index
    for index, mount in enumerate(container.get("volumeMounts") or []):
        yield ("mount", owner, mount["mountPath"]), mount["name"], at / "volumeMounts" / index


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        for source in ("configMapKeyRef", "secretKeyRef"):
            if source in value:
                return f"{value[source].get('name', '')}/{value[source].get('key', '')}"
        if "podGroupName" in value:
            return str(value["podGroupName"])
        return json.dumps(value, separators=(",", ":"))
    return str(value)
