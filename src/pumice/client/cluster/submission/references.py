"""The Secrets, ConfigMaps and ServiceAccounts that the pods of a Job name, and without which they never start."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.client.cluster.pod_references import CONFIG_MAP, SECRET, pod_references
from pumice.engines.kubernetes.api.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Resource
from pumice.model.findings import SPEC, Path
from pumice.model.job import Job, Manifest
from pumice.model.problem import Option, Problem
from pumice.store.job_source import JobSource
from pumice.store.run_errors import Denied, InvalidOption

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_RESOURCES: Final = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS}
_HINT: Final = ("create it first, or put it into the file, or into one of ", Option("with"))


async def check_references(
    connection: Connection, manifest: Manifest, ours: Collection[str], source: JobSource
) -> None:
    """Raises InvalidOption for what is missing and is not created with the Job (`ours`: `KIND NAME`)."""
    job, problems, known = msgspec.convert(manifest, Job), list[Problem](), dict[str, bool]()
    for resource, name, path in _required(job):
        key = f"{resource.kind} {name}"
        if key in ours:
            continue
        if key not in known:
            known[key] = await _exists(connection, resource, job.namespace, name)
        if not known[key]:
            problems.append(Problem(f"{path}: {key} does not exist in {job.namespace}", _HINT, source(path)))
    if problems:
        raise InvalidOption.of(problems)


def _required(job: Job) -> Iterator[tuple[Resource, str, Path]]:
    for each in pod_references(job):
        if each.is_required and each.kind in _RESOURCES:
            yield _RESOURCES[each.kind], each.name, each.path
    for index, task in enumerate(job.spec.tasks):
        if account := task.pod_spec.get("serviceAccountName"):
            path = SPEC / "tasks" / index / "template" / "spec" / "serviceAccountName"
            yield SERVICE_ACCOUNTS, str(account), path


async def _exists(connection: Connection, resource: Resource, namespace: str, name: str) -> bool:
    try:
        return await connection.get(resource, namespace, name) is not None
    except Denied:
        # Who may not know finds out when the pods start.
        return True
