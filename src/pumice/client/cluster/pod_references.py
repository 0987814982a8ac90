"""The objects that the pod templates of a Job name: Secrets, ConfigMaps and claims, with the place of each name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.client.cluster.connection import Connection
from pumice.engines.kubernetes.api.resources import CLAIMS, CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Resource
from pumice.model.findings import SPEC, Path
from pumice.model.job import Job, Manifest
from pumice.model.problem import Option, Problem
from pumice.store.job_source import JobSource
from pumice.store.run_errors import Denied, InvalidOption

# The fields of volumes, of their sources and of variables that name an object, and in which field.
_NAMING: Final = (
    ("persistentVolumeClaim", "claimName", CLAIMS),
    ("configMap", "name", CONFIG_MAPS),
    ("secret", "secretName", SECRETS),
    ("secret", "name", SECRETS),
    ("configMapRef", "name", CONFIG_MAPS),
    ("secretRef", "name", SECRETS),
    ("configMapKeyRef", "name", CONFIG_MAPS),
    ("secretKeyRef", "name", SECRETS),
)
_HINT: Final = ("create it first, or put it into the file, or into one of ", Option("with"))


class Reference(Struct, frozen=True):
    path: Path  # of the name
    resource: Resource
    name: str
    key: str = ""  # that the object must have
    is_required: bool = True  # pods do not start without it


def pod_references(job: Job) -> Iterator[Reference]:
    """Yield what pods cannot start without, and the Secrets with which images are pulled."""
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is None and volume.volume_claim_name:
            yield Reference(SPEC / "volumes" / index / "volumeClaimName", CLAIMS, volume.volume_claim_name)
    for index, task in enumerate(job.spec.tasks):
        path = SPEC / "tasks" / index / "template" / "spec"
        for number, secret in enumerate(task.pod_spec.get("imagePullSecrets") or ()):
            if name := secret.get("name"):
                yield Reference(path / "imagePullSecrets" / number / "name", SECRETS, name, is_required=False)
        for owner, where in _owners(task.pod_spec, path):
            for field, name_field, resource in _NAMING:
                source = owner.get(field) or {}
                if (name := source.get(name_field)) and not source.get("optional"):
                    keys = (
                        [source["key"]]
                        if "key" in source
                        else ["", *(each["key"] for each in source.get("items") or ())]
                    )
                    yield from (Reference(where / field / name_field, resource, name, key) for key in keys)


def _owners(spec: Manifest, path: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Yield each part of a pod's spec that may name an object, and where it is."""
    for index, volume in enumerate(spec.get("volumes") or ()):
        where = path / "volumes" / index
        yield volume, where
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            yield source, where / "projected" / "sources" / number
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            where = path / kind / index
            for number, source in enumerate(container.get("envFrom") or ()):
                yield source, where / "envFrom" / number
            for number, variable in enumerate(container.get("env") or ()):
                yield variable.get("valueFrom") or {}, where / "env" / number / "valueFrom"


async def check_references(
    connection: Connection, manifest: Manifest, ours: Collection[str], source: JobSource
) -> None:
    """Raises InvalidOption for Secrets, ConfigMaps and ServiceAccounts that are missing, without which no pod starts.

    `ours` are created with the Job: `KIND NAME`.
    """
    job, problems, known = msgspec.convert(manifest, Job), list[Problem](), dict.fromkeys(ours, True)
    required = [each for each in pod_references(job) if each.is_required and each.resource is not CLAIMS]
    for index, task in enumerate(job.spec.tasks):
        if account := task.pod_spec.get("serviceAccountName"):
            path = SPEC / "tasks" / index / "template" / "spec" / "serviceAccountName"
            required.append(Reference(path, SERVICE_ACCOUNTS, str(account)))
    for each in required:
        key = f"{each.resource.kind} {each.name}"
        if key not in known:
            try:
                known[key] = await connection.get(each.resource, job.namespace, each.name) is not None
            except Denied:
                # Who may not know finds out when the pods start.
                known[key] = True
        if not known[key]:
            problems.append(Problem(f"{each.path}: {key} does not exist in {job.namespace}", _HINT, source(each.path)))
    if problems:
        raise InvalidOption.of(problems)
