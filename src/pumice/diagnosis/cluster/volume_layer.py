"""Layer 8: claims that are missing or unbound, and volumes that cannot be attached or mounted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pumice.diagnosis.cluster.objects import Claim
from pumice.diagnosis.cluster.reading import Cause, ClusterReading, PodReading, Unread, event_line, known, pod_line
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.pod_waits import missing_claims_sentence
from pumice.diagnosis.why import EvidenceLine, Hint, WhyCode
from pumice.model.objects import missing_claims_of_others
from pumice.model.snapshot import PodPhase
from pumice.model.text import some

_CLAIM: Final = "PersistentVolumeClaim"
_FAILED: Final = ("ProvisioningFailed", "FailedBinding", "ExternalProvisioning")
_WAITS_FOR_POD: Final = "WaitForFirstConsumer"
_MOUNT: Final = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
_PENDING, _LOST = "Pending", "Lost"


def missing_claim_cause(reading: ClusterReading) -> Cause | None:
    """Return the claims that do not exist: no pod starts without them, and Pumice creates none before."""
    if isinstance(reading.claims, Unread):
        return None
    existing = {claim.metadata.name for claim in reading.claims}
    names = missing_claims_of_others(reading.job, existing) if reading.lacks_pods else []
    for pod in reading.live_pods:
        if pod.observed.phase is PodPhase.PENDING:
            names += [name for name in claims_of(pod) if name not in existing]
    return _missing(reading, list(dict.fromkeys(names))) if names else None


def _missing(reading: ClusterReading, names: Sequence[str]) -> Cause:
    namespace = reading.job.namespace
    others = [claim.metadata.name for claim in known(reading.claims)]
    there = some(sorted(others)) if others else "none"
    return Cause(
        code=WhyCode.VOLUME,
        message=missing_claims_sentence(names),
        since=reading.created,
        evidence=tuple(EvidenceLine(kind=_CLAIM, name=name, field="", text="not found") for name in names),
        hints=() if isinstance(reading.claims, Unread) else (Hint(f"claims of namespace {namespace}: {there}"),),
    )


def volume_cause(reading: ClusterReading, pod: PodReading, missing: str) -> Cause:
    """Return why the claims of a pod keep it from being scheduled; `missing` is one that its scheduler misses."""
    if missing:
        return _missing(reading, [missing])
    for claim in known(reading.claims):
        if claim.metadata.name in claims_of(pod) and claim.status.phase in (_PENDING, _LOST):
            return _unbound(reading, claim)
    return Cause(
        code=WhyCode.VOLUME,
        message=f"a claim of {pod.short_name} is not bound: {', '.join(claims_of(pod)) or 'its name is unknown'}",
        evidence=(pod_line(pod, "status.conditions[PodScheduled]", pod.said),),
        task=pod.observed.task,
    )


def unbound_claim_cause(reading: ClusterReading) -> Cause | None:
    """Return a claim that cannot be bound, where no pod says so: pods of a gang may not exist yet."""
    named = {name for pod in reading.live_pods for name in claims_of(pod)}
    for claim in known(reading.claims):
        if claim.metadata.name in named and claim.status.phase in (_PENDING, _LOST) and _events(reading, claim):
            return _unbound(reading, claim)
    return None


def _events(reading: ClusterReading, claim: Claim, *reasons: str) -> Sequence[EvidenceLine]:
    names = ((claim.metadata.name, claim.metadata.uid),)
    return [event_line(event) for event in reading.events_of(_CLAIM, names, *(reasons or _FAILED))]


def _unbound(reading: ClusterReading, claim: Claim) -> Cause:
    name, storage = claim.metadata.name, claim.spec.storage_class_name
    failures, waits = _events(reading, claim), _events(reading, claim, _WAITS_FOR_POD)
    why = (failures or waits)[0].text if failures or waits else ""
    phase = "is lost: its volume is gone" if claim.status.phase == _LOST else "is not bound"
    since = failures[0].since if failures else None
    status = EvidenceLine(
        kind=_CLAIM, name=name, field="status.phase", since=since, text=f"{claim.status.phase}, class {storage or '-'}"
    )
    return Cause(
        code=WhyCode.VOLUME,
        message=f"PersistentVolumeClaim {name} {phase}{f': {why}' if why else ''}",
        since=since,
        evidence=(status, *failures, *waits),
        hints=(Hint("to see it", f"kubectl describe pvc {name} -n {reading.job.namespace}"),),
    )


def mount_cause(reading: ClusterReading) -> Cause | None:
    """Return why a volume of a pod that has a node cannot be attached or mounted."""
    starting = [pod for pod in reading.live_pods if pod.observed.phase is PodPhase.PENDING]
    for pod in starting:
        for event in reading.events_of_pods([pod], *_MOUNT)[:1]:
            return Cause(
                code=WhyCode.VOLUME,
                message=f"{pod.short_name} waits for a volume: {in_words('', event.message)}",
                since=event.begin,
                evidence=(event_line(event),),
                task=pod.observed.task,
            )
    return None


def claims_of(pod: PodReading) -> list[str]:
    """Return the claims that a pod mounts."""
    claims = (each.get("persistentVolumeClaim") or {} for each in pod.details.spec.get("volumes") or ())
    return [claim["claimName"] for claim in claims if claim.get("claimName")]
