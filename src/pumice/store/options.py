"""The options of a run, as `pumice run` has flags for them: sizes, kills, published ports, network, isolation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.findings import Path as JobPath
from pumice.model.job import Job
from pumice.model.problem import NOWHERE, Position
from pumice.model.syntax import SECRET_NAME
from pumice.store.settings import Settings

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
    """Publish a port of a pod on 127.0.0.1. `pod` may be left out of the option for a job of one pod."""

    pod: str
    port: int
    local: int = 0  # the port of this machine; 0 is the same or any other free one

    def __str__(self) -> str:
        return ":".join(map(str, filter(None, (self.pod, self.port, self.local))))


class CodeMode(StrEnum):
    COPY = "copy"
    READ_ONLY = "read-only"


class Interrupt(StrEnum):
    STOP = "stop"
    DETACH = "detach"


class ClusterOptions(Struct, frozen=True):
    """The options that only a run on a cluster has. What is empty is as the Job file says."""

    name: str = ""
    queue: str = ""
    priority_class: str = ""
    images: Mapping[str, str] = field(default_factory=dict)  # by the name in the Job file
    code: Path | None = None  # the directory whose code the pods get
    code_limit: int = 2 << 20  # bytes, compressed
    code_directory: str = ""  # where pods have it
    code_mode: CodeMode = CodeMode.COPY
    replace: bool = False  # a finished Job of the same name
    replaced_uid: str = ""  # the only one that may be replaced
    delete_claims: bool = False  # that it owns
    yes: bool = False  # also if another person submitted it
    on_interrupt: Interrupt | None = None  # what a signal does without a terminal


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
    args: tuple[str, ...] = ()  # of the program; in a request they are in the Job, and these are how they are shown
    args_for: tuple[str, ...] = ()  # the tasks that get them
    mode: str = "foreground"  # or detached: the run outlives the terminal
    priority: int | None = None  # in the queue of this machine; None if the Job says it by its priorityClassName
    priorities: Mapping[str, int] = field(default_factory=dict)  # by priorityClassName
    documents: tuple[Path, ...] = ()  # files of ConfigMaps, Secrets and claims that the job uses
    hold: bool = False  # store the run; it is queued when it is resumed
    after_reboot: str = "policy"  # or suspend: what becomes of the run when the machine was restarted
    wait: bool = True  # for resources of a busy machine; else the run is refused
    max_wait: float | None = None  # seconds
    ignore: tuple[str, ...] = ()  # resources to leave out
    # By option, names of images that the job must use: an option for another image would silently have no effect.
    required_images: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cluster: ClusterOptions | None = None  # on a cluster


def priority_of(job: Job, options: RunOptions) -> int:
    """Return the priority of a run in the queue of this machine."""
    if options.priority is not None:
        return options.priority
    return options.priorities.get(job.spec.priority_class_name, 0)


def secret_names(options: RunOptions) -> list[str]:
    """Return the variables whose values are not stored: those that were passed on, and those with secret names."""
    settings = options.settings
    return sorted(name for name in settings.env if name in settings.passed_on or SECRET_NAME.search(name))


def encode_options(options: RunOptions, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """Return the options as plain data, without the values of hidden variables."""
    env = {name: value for name, value in options.settings.env.items() if name not in hidden}
    settings = replace(options.settings, env=env)
    plain: dict[str, Any] = msgspec.to_builtins(replace(options, settings=settings), enc_hook=str, str_keys=True)
    return plain


def decode_options(plain: Mapping[str, Any], env: Mapping[str, str] = {}) -> RunOptions:
    """Return the options of plain data, with variables that were not stored."""
    options: RunOptions = msgspec.convert(plain, RunOptions, dec_hook=lambda kind, value: kind(value), strict=False)
    if not env:
        return options
    return replace(options, settings=replace(options.settings, env={**options.settings.env, **env}))
