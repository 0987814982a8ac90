"""A pod manifest that plugins edit by copy.

A plugin receives a Pod and returns another one; both share the unchanged parts. No edit removes or reorders anything.
An addition never replaces a variable, port, mount or init container of the user's with the same name or path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from pumice.model.findings import SPEC, Path
from pumice.model.job import Job, Manifest

EnvVar = Mapping[str, Any]
Edit = Callable[[Manifest], Manifest]


def env_values(values: Mapping[str, str]) -> list[EnvVar]:
    """Return variables with literal values in the form of a container's `env`."""
    return [{"name": name, "value": value} for name, value in values.items()]


def all_containers(spec: Manifest) -> list[Manifest]:
    """Return the containers of a pod spec, init containers first."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def containers_with_paths(spec: Mapping[str, Any], at: Path) -> Iterator[tuple[Path, Manifest]]:
    """Yield the init containers and the containers of the pod spec at a path, each with its own path."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield at / field / index, container


def container_path(job: Job, task: str, container: str) -> Path:
    """Return the path of a container of the Job, or of its task where a plugin added the container."""
    index = job.task_names.index(task)
    path = SPEC / "tasks" / index
    found = containers_with_paths(job.spec.tasks[index].pod_spec, path / "template" / "spec")
    return next((each for each, manifest in found if manifest.get("name") == container), path)


class Pod(Struct, frozen=True):
    manifest: Manifest

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def spec(self) -> Manifest:
        spec: Manifest = self.manifest["spec"]
        return spec

    @property
    def containers(self) -> list[Manifest]:
        return self.spec.get("containers") or []

    @property
    def init_containers(self) -> list[Manifest]:
        return self.spec.get("initContainers") or []

    @property
    def annotations(self) -> dict[str, str]:
        return self.manifest["metadata"].get("annotations") or {}

    def with_spec(self, **fields: object) -> Pod:
        return Pod({**self.manifest, "spec": {**self.spec, **fields}})

    def with_annotation(self, key: str, value: str) -> Pod:
        metadata = {**self.manifest["metadata"], "annotations": {**self.annotations, key: value}}
        return Pod({**self.manifest, "metadata": metadata})

    def with_defaults(self, fields: Mapping[str, str]) -> Pod:
        """Set the fields of the spec that the template leaves empty."""
        spec = self.spec
        return self.with_spec(**{field: value for field, value in fields.items() if not spec.get(field)})

    def edit_containers(self, edit: Edit, init_edit: Edit | None) -> Pod:
        """Replace each container by `edit(container)` and each init container by `init_edit(container)`."""
        spec = {**self.spec, "containers": [edit(container) for container in self.containers]}
        if init_edit is not None and self.init_containers:
            spec["initContainers"] = [init_edit(container) for container in self.init_containers]
        return Pod({**self.manifest, "spec": spec})

    def with_env(self, env: Sequence[EnvVar]) -> Pod:
        """Append variables to those of all containers."""

        def edit(container: Manifest) -> Manifest:
            return add_env(container, env)

        return self.edit_containers(edit, edit)

    def with_port(self, name: str, number: int, *, init: bool = False) -> Pod:
        """Open a port in all containers; on the host's network only in the first, because ports conflict there.

        Init containers have ended before the others start, so theirs do not conflict.
        """

        def edit(container: Manifest) -> Manifest:
            return add_port(container, name, number)

        init_edit = edit if init else None
        if not (self.spec.get("hostNetwork") and self.containers):
            return self.edit_containers(edit, init_edit)
        taken = any(_has_port(container, number) for container in self.containers)
        first = None if taken else self.containers[0]
        return self.edit_containers(lambda container: edit(container) if container is first else container, init_edit)

    def with_volume(self, volume: Manifest, mounts: Sequence[Manifest]) -> Pod:
        """Mount a volume in all containers that have no mount at that path."""
        return self.with_volumes([volume], mounts)

    def with_volumes(self, volumes: Sequence[Manifest], mounts: Sequence[Manifest]) -> Pod:
        """Mount several volumes; one copy of the pod instead of one per volume."""
        own = self.spec.get("volumes") or []
        taken = {volume["name"] for volume in own}
        added = [volume for volume in volumes if volume["name"] not in taken]

        def edit(container: Manifest) -> Manifest:
            own = container.get("volumeMounts") or []
            taken = {mount["mountPath"] for mount in own}
            added = [mount for mount in mounts if mount["mountPath"] not in taken]
            return {**container, "volumeMounts": [*own, *added]} if added else container

        return self.edit_containers(edit, edit).with_spec(volumes=[*own, *added])

    def with_init_container(self, container: Manifest) -> Pod:
        if any(existing["name"] == container["name"] for existing in self.init_containers):
            return self
        return self.with_spec(initContainers=[*self.init_containers, container])


def add_env(container: Manifest, env: Sequence[EnvVar]) -> Manifest:
    own = container.get("env")
    if not own:
        return {**container, "env": list(env)} if env else container
    taken = {variable["name"] for variable in own}
    added = [variable for variable in env if variable["name"] not in taken]
    return {**container, "env": [*own, *added]} if added else container


def add_port(container: Manifest, name: str, number: int) -> Manifest:
    if _has_port(container, number):
        return container
    own = container.get("ports") or []
    # Port names must be unique in a container; the number is what matters.
    named = all(port.get("name") != name for port in own)
    port: Manifest = {"name": name, "containerPort": number} if named else {"containerPort": number}
    return {**container, "ports": [*own, port]}


def _has_port(container: Manifest, number: int) -> bool:
    return any(port["containerPort"] == number for port in container.get("ports") or [])
