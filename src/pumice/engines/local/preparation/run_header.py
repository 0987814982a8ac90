"""What the header of a run says about its plan and about what it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.preparation.preflight import memory_notes, unenforced_limits
from pumice.engines.local.preparation.reservation import Reservation
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.volumes.volume_plan import KINDS, pod_directory
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers
from pumice.model.text import shown_words
from pumice.store.events import RunPlanned

_NAMED_ELSEWHERE: Final = ("hostPath", "persistentVolumeClaim")  # these volumes have lines of their own


def run_header(plan: Plan, reservation: Reservation, pulled: Iterable[str]) -> RunPlanned:
    """`pulled` has a line for each image that was pulled."""
    options = plan.request.options
    args = [f"args {shown_words(options.args)}"] if options.args else []
    about_pods = header_notes(reservation.inputs, plan.admitted.written, plan.manifests)
    memory = memory_notes(plan.manifests, options.isolation)
    return RunPlanned(
        job=plan.job,
        images=reservation.images.text(plan.manifests),
        host_accesses=plan.host_accesses,
        notes=(*args, *plan.notes, *pulled, *about_pods, *memory, *plan.changes),
        name=reservation.ref,
        directory=str(reservation.files.directory),
        note=options.note,
        unenforced=unenforced_limits(plan.job, options.isolation),
    )


def header_notes(inputs: JobInputs, written: Job, manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield what pods get: Python, variables, claims and volumes."""
    text = inputs.settings.python_text
    if text and any(inputs.image_of(name) is None for name in image_names(manifests)):
        # This machine serves as image.
        yield f"python {text}"
    overridden: dict[str, str] = {}
    containers = [container for manifest in manifests for container in all_containers(manifest["spec"])]
    for variable in (variable for container in containers for variable in container.get("env") or []):
        if variable["name"] in inputs.settings.env:
            overridden.setdefault(variable["name"], variable.get("value") or "a value of its own")
    yield from (f"--env {name} overrides the job's {name}={value}" for name, value in overridden.items())
    yield from (f"claim {name}: {path}" for name, path in inputs.claims.items())
    notes: dict[str, None] = {}
    for task in written.spec.tasks:
        mounts = [each for container in all_containers(task.pod_spec) for each in container.get("volumeMounts") or []]
        for volume in task.pod_spec.get("volumes") or []:
            kind = next((key for key, value in volume.items() if key != "name" and value is not None), "emptyDir")
            if kind not in _NAMED_ELSEWHERE:
                where = _describe_volume(volume, kind, inputs)
                targets = dict.fromkeys(str(each["mountPath"]) for each in mounts if each["name"] == volume["name"])
                notes[f"volume {volume['name']}: {where}, at {', '.join(targets) or 'no path'}"] = None
    yield from notes


def _describe_volume(volume: Manifest, kind: str, inputs: JobInputs) -> str:
    if kind in KINDS:
        return f"files of {kind}"
    if (volume.get(kind) or {}).get("medium") == "Memory":
        return "in memory"
    directory = pod_directory(inputs.scratch, "*") / "volumes" / volume["name"]
    return f"{directory} ({'kept' if inputs.settings.keep else 'removed with its pod'})"
