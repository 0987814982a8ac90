"""Objects beside the pods: how they are owned, and which of them hold something that is made once.

A plugin says which objects should exist; whoever reconciles them creates, repairs and removes them. Key material is
the exception to "same input, same output": it is made when its Secret is created and never again, so it is described
here as a recipe that the engine carries out with its own source of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

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
    """An object in the job's namespace that goes when the job goes."""
    metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


@dataclass(frozen=True, slots=True)
class KeyPair:
    private: str
    public: str


KeyMaker = Callable[[str], KeyPair]  # "rsa" or "ed25519" -> a fresh pair


@dataclass(frozen=True, slots=True)
class Once:
    """A Secret of which some entries are filled when it is created, and left alone ever after."""

    manifest: Manifest
    make: Callable[[KeyMaker], Mapping[str, str]]
    given: bool = False  # the entries come from the user's file rather than from a key maker

    def created_with(self, keys: KeyMaker) -> Manifest:
        return {**self.manifest, "stringData": {**self.make(keys), **self.manifest["stringData"]}}


OwnedObject = Manifest | Once


def claims(job: Job) -> Iterator[Manifest]:
    """The claims that are made for this job."""
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            body = {"spec": volume.volume_claim}
            yield owned(job, "v1", "PersistentVolumeClaim", _claim_name(job, index), body)


def claim_names(job: Job) -> list[str]:
    """All claims that the pods mount, each once."""
    return list(dict.fromkeys(_claim_name(job, index) for index in range(len(job.spec.volumes))))


def with_claims(job: Job, spec: Manifest) -> Manifest:
    """A pod spec with the job's claims: one volume a claim, and as many mounts as there are paths."""
    if not job.spec.volumes:
        return spec
    pod = Pod({"spec": spec})
    mounts: dict[str, list[Manifest]] = {}  # by claim
    for index, volume in enumerate(job.spec.volumes):
        places = mounts.setdefault(_claim_name(job, index), [])
        name = places[0]["name"] if places else naming.claim_volume(job.name, job.uid, index)
        places.append({"name": name, "mountPath": volume.mount_path})
    volumes = [
        {"name": places[0]["name"], "persistentVolumeClaim": {"claimName": claim}} for claim, places in mounts.items()
    ]
    return pod.with_volumes(volumes, [mount for places in mounts.values() for mount in places]).spec


def _claim_name(job: Job, index: int) -> str:
    # A name that stands beside a claim to be made is one that Volcano's controller wrote there: that claim exists.
    return job.spec.volumes[index].volume_claim_name or naming.claim(job.name, job.uid, index)
