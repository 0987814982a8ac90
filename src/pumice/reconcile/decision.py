"""What a pass decides: the status to write first, then what to do, then what to tell. Engines only carry it out."""

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
    uid: str  # so that a pod made anew under the same name is never hit


@dataclass(frozen=True, slots=True)
class Ensure:
    """Make the object, or put it right."""

    companion: OwnedObject


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
    """The job with all that it owns."""

    uid: str


EngineCommand = CreatePod | DeletePod | Ensure | Remove | RemoveCommand | DeleteJob


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Told to people, in Kubernetes as an Event of the Job."""

    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    pod: str = ""  # short name, if it is about one
    policy: Path = ROOT  # of the policy that acted; empty if none did
    event: str = ""  # that the policy acted upon
    action: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    status: JobStatus
    commands: tuple[EngineCommand, ...] = ()
    events: tuple[JobEvent, ...] = ()
    requeue_after: dt.timedelta | None = None
