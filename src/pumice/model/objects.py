"""Owned objects: the objects beside the pods that exist for a job, and the claims of `spec.volumes`.

Plugins declare which objects should exist; the reconciler creates, repairs and removes them. Key material is the
exception to "same input, same output": the engine generates it when it creates the Secret, and never again. `Once`
describes such a Secret.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from msgspec import Struct

from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.pod import Pod
from pumice.model.vocabulary import GROUP_VERSION, KIND


def owner_reference(job: Job) -> Manifest:
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(job: Job, api_version: str, kind: str, name: str, body: Mapping[str, Any]) -> Manifest:
    """Return an object in the job's namespace that is deleted with the job."""
    metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


class KeyPair(Struct, frozen=True):
    private: str
    public: str


KeyMaker = Callable[[str], KeyPair]  # "rsa" or "ed25519" -> a fresh pair


class Once(Struct, frozen=True):
    """A Secret with entries that are generated when it is created. It is never written again, even if edited."""

    manifest: Manifest
    make: Callable[[KeyMaker], Mapping[str, str]]
    given: bool = False  # the entries come from the user's file

    def created_with(self, keys: KeyMaker) -> Manifest:
        return {**self.manifest, "stringData": {**self.make(keys), **self.manifest["stringData"]}}


OwnedObject = Manifest | Once


def claims(job: Job) -> Iterator[Manifest]:
    """Yield the claims to create for this job."""
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            body = {"spec": volume.volume_claim}
            yield owned(job, "v1", "PersistentVolumeClaim", _claim_name(job, index), body)


def claim_names(job: Job) -> list[str]:
    """Return all claims that the pods mount, without duplicates."""
    return list(dict.fromkeys(_claim_name(job, index) for index in range(len(job.spec.volumes))))


def missing_claims_of_others(job: Job, existing: Container[str]) -> list[str]:
    """Return the claims that do not exist and that the job does not create itself."""
    own = {claim["metadata"]["name"] for claim in claims(job)}
    return [name for name in claim_names(job) if name not in existing and name not in own]


def with_claims(job: Job, spec: Manifest) -> Manifest:
    """Return a pod spec with the job's claims: one volume per claim, and one mount per path."""
    if not job.spec.volumes:
        return spec
    pod = Pod({"spec": spec})
    mounts: dict[str, list[Manifest]] = {}  # by claim
    for index, volume in enumerate(job.spec.volumes):
        own_mounts = mounts.setdefault(_claim_name(job, index), [])
        name = own_mounts[0]["name"] if own_mounts else naming.claim_volume(job.name, job.uid, index)
        own_mounts.append({"name": name, "mountPath": volume.mount_path})
    volumes = [
        {"name": paths[0]["name"], "persistentVolumeClaim": {"claimName": claim}} for claim, paths in mounts.items()
    ]
    return pod.with_volumes(volumes, [mount for paths in mounts.values() for mount in paths]).spec


def _claim_name(job: Job, index: int) -> str:
    # Volcano's controller writes the name of a claim that it created beside the claim spec.
    return job.spec.volumes[index].volume_claim_name or naming.claim(job.name, job.uid, index)
