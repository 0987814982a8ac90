"""What a pass decides: the status, which is written first, then commands, then events. Engines only carry it out."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from pumice.model.findings import ROOT, Path
from pumice.model.job import Manifest
from pumice.model.objects import OwnedObject
from pumice.model.status import JobStatus


@dataclass(frozen=True, slots=True)
class CreatePod:
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeletePod:
    name: str
    uid: str  # a new pod of the same name must not be deleted
    unless_finished: bool = False  # a pod that has finished meanwhile stays, with its logs


@dataclass(frozen=True, slots=True)
class Ensure:
    """Create the object, or update it."""

    owned: OwnedObject


@dataclass(frozen=True, slots=True)
class Remove:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class RemoveCommand:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job with everything that it owns."""

    uid: str


EngineCommand = CreatePod | DeletePod | Ensure | Remove | RemoveCommand | DeleteJob


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An Event of the Job in Kubernetes."""

    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    pod: str = ""  # short name of its pod
    policy: Path = ROOT  # of the policy that acted
    event: str = ""  # that the policy acted on
    action: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    status: JobStatus
    commands: tuple[EngineCommand, ...] = ()
    events: tuple[JobEvent, ...] = ()
    requeue_after: dt.timedelta | None = None
