"""Submits a Job of a cluster again, under the next free name: with the spec, the code and the variables that it has."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from pumice.client.backend import RunRef
from pumice.client.cluster.control.people import find_user_name
from pumice.client.cluster.pod_references import check_references, pod_references
from pumice.client.cluster.refusals import refused
from pumice.client.cluster.submission.code_secrets import adopt_secret
from pumice.client.cluster.submission.job_manifest import Marks
from pumice.client.cluster.submission.taken_names import free_name
from pumice.engines.kubernetes.api.errors import ApiError
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


class Again(Struct, frozen=True):
    """A Job as it is created again. The API server may have chosen its name."""

    before: Manifest
    marks: Marks

    def manifest(self, name: str) -> Manifest:
        metadata, spec = self.before["metadata"], self.before["spec"]
        left_out = (_APPLIED, keys.TIMED_OUT)
        annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in left_out}
        annotations |= {keys.SUBMISSION: self.marks.submission, keys.SUBMITTED_BY: self.marks.user}
        # A claim that was made for the other Job is its own.
        volumes = [
            {key: value for key, value in each.items() if key != "volumeClaimName" or "volumeClaim" not in each}
            for each in spec.get("volumes") or ()
        ]
        generated = metadata.get("generateName")
        return {
            "apiVersion": self.before["apiVersion"],
            "kind": self.before["kind"],
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
    again = Again(await backend.job(run), Marks(secrets.token_hex(4), await find_user_name(connection)))
    await check_references(connection, again.manifest(run.name), (), JobSource())
    names = {each.name for each in pod_references(msgspec.convert(again.before, Job)) if each.resource is SECRETS}
    shared = [
        name for name in sorted(names) if name.startswith(_OWN_SECRETS) and await _is_owned(connection, run, name)
    ]
    made = await _created(backend, run, again)
    for name in shared:
        if not await adopt_secret(connection, made, name):
            raise InvalidOption(f"{made} was created, and its pods wait for the Secret {name}, which is gone")
    return made


async def _is_owned(connection: Connection, run: RunRef, name: str) -> bool:
    """Whether a Secret goes with the Job. One of another person stays, whatever its name: it gets no owner."""
    raw = await connection.get(SECRETS, run.namespace, name)
    metadata = {} if raw is None else msgspec.json.decode(raw)["metadata"]
    return any(owner["uid"] == run.uid for owner in metadata.get("ownerReferences") or ())


async def _created(backend: ClusterBackend, run: RunRef, again: Again) -> RunRef:
    connection = backend.connection
    for _ in range(_TRIES):
        name = await free_name(connection, run.namespace, run.name)
        body = msgspec.json.encode(again.manifest(name))
        try:
            raw: bytes | None = await connection.client.create(JOBS, run.namespace, body, attempts=3)
        except ApiError as error:
            if not error.already_exists:
                raise refused(connection, f"Job {name}", error) from error
            raw = await connection.get(JOBS, run.namespace, name)
        metadata = {} if raw is None else msgspec.json.decode(raw)["metadata"]
        # Else somebody else has taken the name; if it is this Job, an answer was lost.
        if (metadata.get("annotations") or {}).get(keys.SUBMISSION) == again.marks.submission:
            return RunRef(metadata["name"], 0, run.namespace, metadata["uid"])
    raise InvalidOption(f"{run}: others have taken each free name meanwhile", "try again")
