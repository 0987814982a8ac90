"""The checks of a job's plugins, and whether Kubernetes accepts the pods and objects that they create.

For what the user overrides, each plugin also shapes a copy of the pod without the user's variables, mounts and volumes.
What it adds only there is overridden: the user's value is kept, so no plugin has to report it itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from pumice.admission.podtemplate import check_pod_spec
from pumice.model.bare_pod import bare_pod
from pumice.model.findings import SPEC, Finding, Path, warning
from pumice.model.job import Job, Manifest
from pumice.model.pod import Pod, containers_with_paths
from pumice.model.shape import Schema, misfits
from pumice.model.slot import Slot
from pumice.plugins.base import Base, PluginError
from pumice.plugins.limits import most_pods
from pumice.plugins.shaping import manifest_of, owned_objects, payload_size, shaped_pod

# Kubernetes' limit for the data of a ConfigMap or Secret.
MAX_OBJECT_BYTES: Final = 1024 * 1024
# Jobs with more tasks (some clients create one task per pod) have similar ones; checking all would be slow.
TASKS_MADE: Final = 16
# The same holds for what plugins and `spec.volumes` add to each: svc has two variables per task.
ADDITIONS_MADE: Final = 2000


def check_plugins(job: Job, plugins: Sequence[Base]) -> Iterator[Finding]:
    for plugin in plugins:
        yield from plugin.check(job)


def check_owned_objects(job: Job, plugins: Sequence[Base]) -> Iterator[Finding]:
    """Report objects that would exceed Kubernetes' limit."""
    try:
        large = [manifest for manifest in _manifests(job, plugins) if payload_size(manifest) > MAX_OBJECT_BYTES]
    except PluginError as error:
        yield error.finding()
        return
    for manifest in large:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        fits = most_pods(job, partial(_fits, plugins=plugins, kind=kind))
        yield Finding(
            SPEC / "tasks",
            f"{kind} {name} would be larger than 1 MiB: {fits} pods fit, the job has {job.total_replicas}",
            hint="use fewer pods, or shorter names for the job and its tasks",
        )


def check_made_pods(job: Job, plugins: Sequence[Base], kubernetes: Schema) -> Iterator[Finding]:
    """Check the pods that plugins create from valid templates: what the user overrides, and what a plugin breaks."""
    additions = 0
    for position, task in enumerate(job.spec.tasks):
        at = SPEC / "tasks" / position / "template" / "spec"
        slot = Slot(job, task, max(task.replicas - 1, 0))
        try:
            yield from _check_overridden(slot, plugins, at)
            if position < TASKS_MADE and additions < ADDITIONS_MADE:
                made = shaped_pod(slot, plugins)
                fields = [container.get(field) for container in made.containers for field in ("env", "volumeMounts")]
                additions += sum(len(entries or []) for entries in fields)
                # The rules expect a spec of the right shape, which a third-party plugin may not return.
                broken = list(misfits(made.spec, "PodSpec", kubernetes, at)) or _broken_rules(slot, made.spec, at)
                for finding in broken:
                    yield replace(finding, message=f"as the plugins make it: {finding.message}")
        except PluginError as error:
            yield error.finding()
            return


def _broken_rules(slot: Slot, made: Manifest, at: Path) -> list[Finding]:
    before = set(map(_identity, check_pod_spec(bare_pod(slot).spec, at)))
    return [finding for finding in check_pod_spec(made, at) if finding.is_error and _identity(finding) not in before]


def _identity(finding: Finding) -> tuple[Path, str]:
    return finding.path, finding.message


def _manifests(job: Job, plugins: Sequence[Base]) -> list[Manifest]:
    return [manifest_of(declared) for declared in owned_objects(job, plugins)]


def _fits(job: Job, plugins: Sequence[Base], kind: str) -> bool:
    return all(
        payload_size(manifest) <= MAX_OBJECT_BYTES for manifest in _manifests(job, plugins) if manifest["kind"] == kind
    )


def _check_overridden(slot: Slot, plugins: Sequence[Base], at: Path) -> Iterator[Finding]:
    """Yield warnings about the pod template of a slot; `at` is the path of its spec."""
    pod = bare_pod(slot)
    for plugin in plugins:
        empty = plugin.shape_pod(_emptied(pod), slot)
        shaped = dict(containers_with_paths(empty.spec, at))
        for here, container in containers_with_paths(pod.spec, at):
            added = shaped[here]
            words = f"the {plugin.name} plugin leaves it alone"
            yield from _kept(container.get("env"), added.get("env"), here / "env", "name", words)
            words = f"the {plugin.name} plugin does not mount its files there"
            mounts, own_mounts = added.get("volumeMounts"), container.get("volumeMounts")
            yield from _kept(own_mounts, mounts, here / "volumeMounts", "mountPath", words)
        words, inits = f"the {plugin.name} plugin adds none of that name", pod.init_containers
        yield from _kept(inits, empty.init_containers[len(inits) :], at / "initContainers", "name", words)
        yield from _kept(pod.spec.get("volumes"), empty.spec.get("volumes"), at / "volumes", "name", words)


def _kept(
    own: Sequence[Manifest] | None, added: Sequence[Manifest] | None, at: Path, key: str, words: str
) -> Iterator[Finding]:
    """Yield a warning for each entry of the user that has the key of an added one."""
    names = {entry[key] for entry in added or ()} if own else set()
    for position, entry in enumerate(own or ()):
        if entry[key] in names:
            yield warning(at / position / key, f"{entry[key]} is yours; {words}")


def _emptied(pod: Pod) -> Pod:
    """Return the pod without variables, mounts and volumes, and with unnamed init containers."""

    def bare(container: Manifest) -> Manifest:
        return {key: value for key, value in container.items() if key not in ("env", "volumeMounts")}

    emptied = pod.edit_containers(bare, bare).with_spec(volumes=[])
    if not pod.init_containers:
        return emptied
    unnamed = [{**container, "name": ""} for container in emptied.init_containers]
    return emptied.with_spec(initContainers=unnamed)
