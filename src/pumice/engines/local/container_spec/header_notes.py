"""What the header of a run says about what its pods get: Python, variables, claims and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.volumes.data_sources import KINDS
from pumice.engines.local.volumes.volume_plan import pod_directory
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers

_NAMED_ELSEWHERE: Final = ("hostPath", "persistentVolumeClaim")


def header_notes(inputs: JobInputs, written: Job, manifests: Sequence[Manifest]) -> Iterator[str]:
    text = inputs.settings.python_text
    if text and any(inputs.image_of(name) is None for name in image_names(manifests)):
        # This machine serves as image.
        yield f"python {text}"
    yield from _overridden(inputs.settings.env, manifests)
    yield from (f"claim {name}: {path}" for name, path in inputs.claims.items())
    yield from _volumes(written, inputs.scratch, keep=inputs.settings.keep)


def _overridden(env: Mapping[str, str], manifests: Sequence[Manifest]) -> Iterator[str]:
    """Say which of the job's own variables `--env` overrides."""
    found: dict[str, str] = {}
    for manifest in manifests:
        for container in all_containers(manifest["spec"]):
            for each in container.get("env") or []:
                if each["name"] in env:
                    found.setdefault(each["name"], each.get("value") or "a value of its own")
    yield from (f"--env {name} overrides the job's {name}={value}" for name, value in found.items())


def _volumes(job: Job, scratch: Path, *, keep: bool) -> Iterator[str]:
    """Name each volume that the job writes down, but for claims and paths of this machine, which have lines already."""
    notes: dict[str, None] = {}
    for task in job.spec.tasks:
        for volume in task.pod_spec.get("volumes") or []:
            kind = next((key for key, value in volume.items() if key != "name" and value is not None), "emptyDir")
            if kind not in _NAMED_ELSEWHERE:
                where = _where(volume, kind, scratch, keep=keep)
                notes[f"volume {volume['name']}: {where}, at {_targets(task.pod_spec, volume['name'])}"] = None
    yield from notes


def _where(volume: Manifest, kind: str, scratch: Path, *, keep: bool) -> str:
    if kind in KINDS:
        return f"files of {kind}"
    if (volume.get(kind) or {}).get("medium") == "Memory":
        return "in memory"
    directory = pod_directory(scratch, "*") / "volumes" / volume["name"]
    return f"{directory} ({'kept' if keep else 'removed with its pod'})"


def _targets(pod_spec: Manifest, name: str) -> str:
    mounts = [mount for container in all_containers(pod_spec) for mount in container.get("volumeMounts") or []]
    found = dict.fromkeys(str(mount["mountPath"]) for mount in mounts if mount["name"] == name)
    return ", ".join(found) or "no path"
