"""What a pass decides: the status, which is written first, then commands, then events. Engines only carry it out."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from msgspec import Struct

from pumice.model.findings import ROOT, Path
from pumice.model.job import JobStatus, Manifest
from pumice.model.objects import OwnedObject


class CreatePod(Struct, frozen=True):
    manifest: Manifest


class DeletePod(Struct, frozen=True):
    name: str
    uid: str  # a new pod of the same name must not be deleted
    unless_finished: bool = False  # a pod that has finished meanwhile stays, with its logs


class Ensure(Struct, frozen=True):
    """Create the object, or update it."""

    owned: OwnedObject


class Remove(Struct, frozen=True):
    kind: str
    name: str


class RemoveCommand(Struct, frozen=True):
    name: str
    uid: str


class DeleteJob(Struct, frozen=True):
    """Delete the job with everything that it owns."""

    uid: str


EngineCommand = CreatePod | DeletePod | Ensure | Remove | RemoveCommand | DeleteJob


class Severity(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class JobEvent(Struct, frozen=True):
    """An Event of the Job in Kubernetes."""

    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    pod: str = ""  # short name of its pod
    policy: Path = ROOT  # of the policy that acted
    event: str = ""  # that the policy acted on
    action: str = ""
    cause: str = ""  # why the job entered its phase; the message may go on with the policy that acted


class Decision(Struct, frozen=True):
    status: JobStatus
    commands: tuple[EngineCommand, ...] = ()
    events: tuple[JobEvent, ...] = ()
    requeue_after: dt.timedelta | None = None
