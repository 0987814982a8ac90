"""Builds the schemas of Job and Command: the fields of the model, with limits no narrower than Volcano's.

Every object that Volcano's definitions accept is accepted here, so that these can be applied over Volcano's, and
Volcano's over these, while jobs run. An unknown action therefore passes the schema: the webhook rejects it, together
with all other findings, where the API server would report only the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.model.job import Job
from pumice.model.shape import Schema
from pumice.model.snapshot import Command
from pumice.model.vocabulary import Event, Phase
from scripts.crd_structural import SCALARS, Structural, structural

NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DOMAIN_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
# Fields of Kubernetes' own types, each with the path by which `kubectl explain` describes it.
_KUBERNETES_PARTS: Final = {
    "template": ("PodTemplateSpec", "pod"),
    "volumeClaim": ("PersistentVolumeClaimSpec", "pvc.spec"),
}
_ANY_EVENT: Final[Structural] = {"type": "string", "enum": [str(event) for event in Event]}
_COUNT: Final = {"minimum": 0}
_TIME: Final = SCALARS["time"]
_WITHOUT: Final[Mapping[str, frozenset[str]]] = {
    "LifecyclePolicy.action": frozenset({"enum"}),
    "DependsOn.iteration": frozenset({"enum"}),
    "NetworkTopology.highestTierAllowed": frozenset({"format"}),
}
# Additions to the model: Volcano's limits and defaults, and descriptions of the status.
_MORE: Final[Mapping[str, Structural]] = {
    "NetworkTopology.mode": {"default": "hard"},
    "VolumeSpec.mountPath": {"minLength": 1, "pattern": "^[^:]+$"},
    "LifecyclePolicy.event": _ANY_EVENT,
    "LifecyclePolicy.events": {"items": _ANY_EVENT},
    "PartitionPolicy.minPartitions": {"default": 0},
    "TaskSpec.name": {"pattern": NAME_PATTERN},
    "JobSpec.maxRetry": {"default": 3},
    "JobSpec.queue": {"default": "default", "maxLength": 253, "pattern": DOMAIN_PATTERN},
    "JobSpec.priorityClassName": {"pattern": DOMAIN_PATTERN},
    "JobSpec.activeDeadlineSeconds": {"format": "int64"},
    "JobState.phase": {"description": "where the job is in its life", "enum": [str(phase) for phase in Phase]},
    "JobState.reason": {"description": "why it is there, in one word"},
    "JobState.message": {"description": "why it is there, for people"},
    "JobState.lastTransitionTime": {"description": "since when", **_TIME},
    "JobCondition.status": {"description": "the phase that was entered"},
    "JobCondition.lastTransitionTime": {"description": "when it was entered", **_TIME},
    "TaskState.phase": {"description": "number of pods by phase"},
    "JobStatus.state": {"description": "the phase, and why"},
    "JobStatus.minAvailable": {"description": "pods that must be able to run at once", **_COUNT},
    "JobStatus.taskStatusCount": {"description": "pods by task and phase"},
    "JobStatus.pending": {"description": "pods that wait", **_COUNT},
    "JobStatus.running": {"description": "pods that run", **_COUNT},
    "JobStatus.succeeded": {"description": "pods that ended well", **_COUNT},
    "JobStatus.failed": {"description": "pods that failed", **_COUNT},
    "JobStatus.terminating": {"description": "pods that are being removed", **_COUNT},
    "JobStatus.unknown": {"description": "pods that cannot be seen", **_COUNT},
    "JobStatus.version": {"description": "the run: one more with each restart", **_COUNT},
    "JobStatus.retryCount": {"description": "restarts that policies made", **_COUNT},
    "JobStatus.runningDuration": {"description": "how long the job ran"},
    "JobStatus.controlledResources": {"description": "what the controller has to remember"},
    "JobStatus.conditions": {"description": "the phases that the job went through"},
    "Command.action": {"description": "what to do with the target, such as AbortJob or ResumeJob"},
    "Command.target": {"description": "the job to act on", "x-kubernetes-map-type": "atomic"},
    "Command.reason": {"description": "why, in one word"},
    "Command.message": {"description": "why, for people"},
    "CommandTarget.apiVersion": {"description": "its API version"},
    "CommandTarget.kind": {"description": "its kind"},
    "CommandTarget.name": {"description": "its name"},
    "CommandTarget.uid": {"description": "its uid: a command for an older job of the same name is not obeyed"},
}
_REQUIRED: Final[Mapping[str, list[str]]] = {
    "VolumeSpec": ["mountPath"],
    "PartitionPolicy": ["partitionSize", "totalPartitions"],
    "JobCondition": ["status"],
    "CommandTarget": ["apiVersion", "kind", "name", "uid"],
}


def job_schema(kubernetes: Schema) -> Structural:
    return _Converter(Job, kubernetes).root("a batch job: tasks of equal pods that start, restart and end together")


def command_schema() -> Structural:
    return _Converter(Command, {}).root("an order to the controller, such as to suspend a job")


class _Converter:
    def __init__(self, kind: type[msgspec.Struct], kubernetes: Schema) -> None:
        self._name = kind.__name__
        (_, self._types) = msgspec.json.schema_components([kind], ref_template="{name}")
        self._kubernetes = kubernetes

    def root(self, description: str) -> Structural:
        schema = self._object(self._name)
        schema["properties"] |= {
            "apiVersion": {"type": "string", "description": "version of the schema of this object"},
            "kind": {"type": "string", "description": "kind of this object"},
            "metadata": {"type": "object"},
        }
        return {"description": description, **schema}

    def _object(self, name: str) -> Structural:
        fields = self._types[name]["properties"]
        schema: Structural = {
            "type": "object",
            "properties": {field: self._field(f"{name}.{field}", field, fields[field]) for field in sorted(fields)},
        }
        if name in _REQUIRED:
            schema["required"] = _REQUIRED[name]
        return schema

    def _field(self, path: str, field: str, model: dict[str, Any]) -> Structural:
        if field in _KUBERNETES_PARTS:
            type_, explained = _KUBERNETES_PARTS[field]
            return {**structural(type_, self._kubernetes, explained), "description": model["description"]}
        schema = self._value(model)
        kept = {key: value for key, value in schema.items() if key not in _WITHOUT.get(path, ())}
        return kept | _MORE.get(path, {})

    def _value(self, model: dict[str, Any]) -> Structural:
        if "anyOf" in model:
            (kind,) = (kind for kind in model["anyOf"] if kind != {"type": "null"})
            return self._value({**{key: value for key, value in model.items() if key != "anyOf"}, **kind})
        words = {key: value for key, value in model.items() if key not in ("default", "$ref", "items")}
        if "$ref" in model:
            return words | self._object(model["$ref"])
        if "additionalProperties" in model:
            values = model["additionalProperties"]
            # A plugin without arguments may be written as `svc:`, which is null.
            empty = {"nullable": True} if {"type": "null"} in values.get("anyOf", ()) else {}
            return words | {"additionalProperties": self._value(values) | empty}
        if model["type"] == "array":
            return words | {"items": self._value(model["items"])}
        return words | ({"format": "int32"} if model["type"] == "integer" else {})
