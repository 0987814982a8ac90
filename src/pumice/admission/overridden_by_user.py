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
