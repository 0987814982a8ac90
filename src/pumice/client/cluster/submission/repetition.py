"""Submits a Job of a cluster again, under the next free name: with the spec, the code and the variables that it has."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.pod_references import check_references, pod_references
from pumice.client.cluster.refusals import refused
from pumice.client.cluster.submission.code_secrets import adopt_secret
from pumice.client.cluster.submission.job_manifest import Marks
from pumice.client.cluster.submission.taken_names import free_name
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import ObjectMetadata, read_metadata
from pumice.engines.kubernetes.api.resources import JOBS, SECRETS
from pumice.model import keys, naming
from pumice.model.job import Job, Manifest
from pumice.store.job_source import JobSource
from pumice.store.run_errors import InvalidOption

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.client.cluster.connection import Connection

_TRIES: Final = 5  # while others take the free names
_OWN_SECRETS: Final = ("pumice-code-", naming.OWN_VARIABLES)
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def again(before: Manifest, marks: Marks, name: str) -> Manifest:
    """Return a Job as it is created again. The API server may have chosen its name."""
    metadata, spec = before["metadata"], before["spec"]
    left_out = (_APPLIED, keys.TIMED_OUT)
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in left_out}
    annotations |= {keys.SUBMISSION: marks.submission, keys.SUBMITTED_BY: marks.user}
    # A claim that was made for the other Job is its own.
    volumes = [
        {key: value for key, value in each.items() if key != "volumeClaimName" or "volumeClaim" not in each}
        for each in spec.get("volumes") or ()
    ]
    generated = metadata.get("generateName")
    return {
        "apiVersion": before["apiVersion"],
        "kind": before["kind"],
        "metadata": {
            **({"generateName": generated} if generated else {"name": name}),
            "namespace": metadata["namespace"],
            "labels": metadata.get("labels") or {},
            "annotations": {key: text for key, text in annotations.items() if text},
        },
        "spec": {**spec, **({"volumes": volumes} if volumes else {})},
    }


async def repeat(backend: ClusterBackend, run: RunRef) -> RunRef:
    """Raises RunError, also if something that its pods need is gone."""
    connection = backend.connection
    before, marks = await backend.job(run), Marks(secrets.token_hex(4), await connection.user_name())
    await check_references(connection, again(before, marks, run.name), (), JobSource())
    names = {each.name for each in pod_references(msgspec.convert(before, Job)) if each.resource is SECRETS}
    shared = []
    for name in sorted(each for each in names if each.startswith(_OWN_SECRETS)):
        raw = await connection.get(SECRETS, run.namespace, name)
        # One of another person stays, whatever its name: it gets no owner.
        if raw is not None and read_metadata(raw).is_owned_by(run.uid):
            shared.append(name)
    made = await _created(connection, run, before, marks)
    for name in shared:
        if not await adopt_secret(connection, made, name):
            raise InvalidOption(f"{made} was created, and its pods wait for the Secret {name}, which is gone")
    return made


async def _created(connection: Connection, run: RunRef, before: Manifest, marks: Marks) -> RunRef:
    for _ in range(_TRIES):
        name = await free_name(connection, run.namespace, run.name)
        body = msgspec.json.encode(again(before, marks, name))
        try:
            raw: bytes | None = await connection.client.create(JOBS, run.namespace, body, attempts=3)
        except ApiError as error:
            if not error.already_exists:
                raise refused(connection, f"Job {name}", error) from error
            raw = await connection.get(JOBS, run.namespace, name)
        made = ObjectMetadata() if raw is None else read_metadata(raw)
        # Else somebody else has taken the name; if it is this Job, an answer was lost.
        if made.annotations.get(keys.SUBMISSION) == marks.submission:
            return RunRef(made.name, 0, run.namespace, made.uid)
    raise InvalidOption(f"{run}: others have taken each free name meanwhile", "try again")
