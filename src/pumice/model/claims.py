"""`spec.volumes`: claims that are made for the job, or exist already, mounted in every container of every pod."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.objects import owned
from pumice.model.pod import Pod


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
