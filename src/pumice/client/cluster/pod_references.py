"""The objects that the pod templates of a Job name: Secrets, ConfigMaps and claims, with the place of each name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pumice.model.findings import SPEC, Path
from pumice.model.job import Job, Manifest

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105 - a kind
CLAIM: Final = "PersistentVolumeClaim"


class Reference(Struct, frozen=True):
    path: Path  # of the name
    kind: str
    name: str
    key: str = ""  # that the object must have
    is_required: bool = True  # pods do not start without it


def pod_references(job: Job) -> Iterator[Reference]:
    """Yield what pods cannot start without, and the Secrets with which images are pulled."""
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is None and volume.volume_claim_name:
            yield Reference(SPEC / "volumes" / index / "volumeClaimName", CLAIM, volume.volume_claim_name)
    for index, task in enumerate(job.spec.tasks):
        yield from _of_template(task.pod_spec, SPEC / "tasks" / index / "template" / "spec")


def _of_template(spec: Manifest, path: Path) -> Iterator[Reference]:
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        name = secret.get("name")
        if name:
            yield Reference(path / "imagePullSecrets" / index / "name", SECRET, name, is_required=False)
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _of_volume(volume, path / "volumes" / index)
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _of_container(container, path / kind / index)


def _of_volume(volume: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    if claim := volume.get("persistentVolumeClaim"):
        yield Reference(path / "persistentVolumeClaim" / "claimName", CLAIM, claim["claimName"])
    yield from _named(volume, path, (("configMap", "name", CONFIG_MAP), ("secret", "secretName", SECRET)))
    for index, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
        where = path / "projected" / "sources" / index
        yield from _named(source, where, (("configMap", "name", CONFIG_MAP), ("secret", "name", SECRET)))


def _of_container(container: Mapping[str, Any], path: Path) -> Iterator[Reference]:
    for index, source in enumerate(container.get("envFrom") or ()):
        where = path / "envFrom" / index
        yield from _named(source, where, (("configMapRef", "name", CONFIG_MAP), ("secretRef", "name", SECRET)))
    for index, variable in enumerate(container.get("env") or ()):
        where = path / "env" / index / "valueFrom"
        fields = (("configMapKeyRef", "name", CONFIG_MAP), ("secretKeyRef", "name", SECRET))
        yield from _named(variable.get("valueFrom") or {}, where, fields)


def _named(owner: Mapping[str, Any], path: Path, fields: Iterable[tuple[str, str, str]]) -> Iterator[Reference]:
    for field, name_field, kind in fields:
        source = owner.get(field)
        if not source or source.get("optional") or not source.get(name_field):
            continue
        where = path / field / name_field
        if "key" in source:
            yield Reference(where, kind, source[name_field], source["key"])
            continue
        yield Reference(where, kind, source[name_field])
        for item in source.get("items") or ():
            yield Reference(where, kind, source[name_field], item["key"])
