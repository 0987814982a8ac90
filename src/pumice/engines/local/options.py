"""The options of a run, as `pumice run` has flags for them: sizes, kills, published ports, network, isolation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from pumice.engines.local.state.settings import Settings
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job
from pumice.model.problem import NOWHERE, Position

Locate = Callable[[JobPath], Position]  # where a path of the Job is in its file


def nowhere(_path: JobPath) -> Position:
    """The `Locate` of a Job that was not read from a file."""
    return NOWHERE


def at(locate: Locate, path: JobPath) -> str:
    """Return ` (job.yaml:7)`; nothing where the position is not known."""
    position = str(locate(path))
    return f" ({position})" if position else ""


class Isolation(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    PROCESS = "process"


class Network(StrEnum):
    JOB = "job"
    OUTBOUND = "outbound"
    ALL = "all"


class Kill(Struct, frozen=True):
    """Kill a pod this many seconds after the job's first Running."""

    pod: str
    after: float


class Publish(Struct, frozen=True):
    pod: str
    port: int


class RunOptions(Struct, frozen=True):
    """Messages name an option as its flag."""

    settings: Settings
    scale: Mapping[str, int] = field(default_factory=dict)
    kills: tuple[Kill, ...] = ()
    publish: tuple[Publish, ...] = ()
    timeout: float | None = None
    network: Network = Network.OUTBOUND
    isolation: Isolation = Isolation.AUTO
    fit: bool = False  # lower what the job asks for until it fits this machine
    pull: bool = False  # fetch images that the job names and this machine does not have
    note: str = ""  # recorded with the run
    mode: str = "foreground"  # or detached: the run outlives the terminal
    priority: int | None = None  # in the queue of this machine; None if the Job says it by its priorityClassName
    priorities: Mapping[str, int] = field(default_factory=dict)  # by priorityClassName
    documents: tuple[Path, ...] = ()  # files of ConfigMaps, Secrets and claims that the job uses
    hold: bool = False  # store the run; it is queued when it is resumed
    after_reboot: str = "policy"  # or suspend: what becomes of the run when the machine was restarted
    wait: bool = True  # for room on a busy machine; else the run is refused
    max_wait: float | None = None  # seconds
    ignore: tuple[str, ...] = ()  # resources to leave out
    # By option, names of images that the job must use: an option for another image would silently have no effect.
    required_images: Mapping[str, Sequence[str]] = field(default_factory=dict)


def priority_of(job: Job, options: RunOptions) -> int:
    """Return the priority of a run in the queue of this machine."""
    if options.priority is not None:
        return options.priority
    return options.priorities.get(job.spec.priority_class_name, 0)
