"""Warnings about additions of plugins that the user overrides: the user's value is kept.

Each plugin also shapes a copy of the pod without the user's variables, mounts and volumes. What it adds only there is
overridden, so no plugin has to report it itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.model.bare_pod import bare_pod
from pumice.model.findings import Finding, Path, warning
from pumice.model.job import Manifest
from pumice.model.pod import Pod, containers_with_paths
from pumice.model.slot import Slot
from pumice.plugins.base import Base


def check_overridden(slot: Slot, plugins: Sequence[Base], at: Path) -> Iterator[Finding]:
    """Yield warnings about the pod template of a slot; `at` is the path of its spec."""
    pod = bare_pod(slot)
    for plugin in plugins:
        empty = plugin.shape_pod(_emptied(pod), slot)
        shaped = dict(containers_with_paths(empty.spec, at))
        for here, container in containers_with_paths(pod.spec, at):
            yield from _kept_env(container, shaped[here], plugin, here)
            yield from _kept_mounts(container, shaped[here], plugin, here)
        yield from _kept_init_containers(pod, empty, plugin, at)
        yield from _kept_volumes(pod, empty, plugin, at)


def _kept_env(container: Manifest, added: Manifest, plugin: Base, at: Path) -> Iterator[Finding]:
    own = container.get("env") or []
    names = {variable["name"] for variable in added.get("env") or []} if own else set()
    for position, variable in enumerate(own):
        if variable["name"] in names:
            yield warning(
                at / "env" / position / "name", f"{variable['name']} is yours; the {plugin.name} plugin leaves it alone"
            )


def _kept_mounts(container: Manifest, added: Manifest, plugin: Base, at: Path) -> Iterator[Finding]:
    paths = {mount["mountPath"] for mount in added.get("volumeMounts") or []}
    for position, mount in enumerate(container.get("volumeMounts") or []):
        if mount["mountPath"] in paths:
            yield warning(
                at / "volumeMounts" / position / "mountPath",
                f"{mount['mountPath']} is yours; the {plugin.name} plugin does not mount its files there",
            )


def _kept_init_containers(pod: Pod, empty: Pod, plugin: Base, at: Path) -> Iterator[Finding]:
    own = [container["name"] for container in pod.init_containers]
    for container in empty.init_containers[len(own) :]:
        if container["name"] in own:
            yield warning(
                at / "initContainers" / own.index(container["name"]) / "name",
                f"{container['name']} is yours; the {plugin.name} plugin adds none of that name",
            )


def _kept_volumes(pod: Pod, empty: Pod, plugin: Base, at: Path) -> Iterator[Finding]:
    added = {volume["name"] for volume in empty.spec.get("volumes") or []}
    for position, volume in enumerate(pod.spec.get("volumes") or []):
        if volume["name"] in added:
            yield warning(
                at / "volumes" / position / "name",
                f"{volume['name']} is yours; the {plugin.name} plugin adds none of that name",
            )


def _emptied(pod: Pod) -> Pod:
    """Return the pod without variables, mounts and volumes, and with unnamed init containers."""

    def bare(container: Manifest) -> Manifest:
        return {key: value for key, value in container.items() if key not in ("env", "volumeMounts")}

    emptied = pod.edit_containers(bare, bare).with_spec(volumes=[])
    if not pod.init_containers:
        return emptied
    unnamed = [{**container, "name": ""} for container in emptied.init_containers]
    return emptied.with_spec(initContainers=unnamed)
