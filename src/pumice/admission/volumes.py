"""`spec.volumes`: each needs its own path, and either an existing claim or the spec of a new one."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.podtemplate import check_claim_spec
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job
from pumice.model.shape import Schema
from pumice.model.syntax import dns_subdomain_error


def check_volumes(job: Job, kubernetes: Schema) -> Iterator[Finding]:
    paths: dict[str, int] = {}
    for position, volume in enumerate(job.spec.volumes):
        at = SPEC / "volumes" / position
        yield from _check_path(volume.mount_path, at / "mountPath", paths)
        paths.setdefault(volume.mount_path, position)
        if not volume.volume_claim_name and volume.volume_claim is None:
            yield Finding(at, "must have volumeClaimName (an existing claim) or volumeClaim (the spec of a new one)")
        if volume.volume_claim_name and volume.volume_claim is not None:
            yield Finding(at, "must have either volumeClaimName or volumeClaim, not both")
        if volume.volume_claim_name and (error := dns_subdomain_error(volume.volume_claim_name)):
            yield Finding(at / "volumeClaimName", error, volume.volume_claim_name)
        if volume.volume_claim is not None:
            yield from check_claim_spec(volume.volume_claim, at / "volumeClaim", kubernetes)


def _check_path(path: str, at: Path, taken: dict[str, int]) -> Iterator[Finding]:
    if not path:
        yield Finding(at, "is missing", hint="the directory at which the containers mount the volume")
    elif ":" in path:
        yield Finding(at, "must not contain ':'", path)
    elif path in taken:
        yield Finding(at, f"must differ from that of spec.volumes[{taken[path]}]", path)
