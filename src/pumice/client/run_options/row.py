"""A row of the table of options: how a value is read, which flag has it, and where it applies."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from pumice.client.run_options.kinds import Kind
from pumice.model.problem import Advice


class Scope(StrEnum):
    """Where an option applies."""

    MACHINE = "this machine"
    CLUSTER = "a cluster"
    BOTH = "both"


class Group(StrEnum):
    """The titles of the groups in `--help` and in the reference, in their order."""

    PROGRAM = "what runs"
    PLACE = "where it runs and what it sees"
    RESOURCES = "resources and the queue"
    IMAGES = "images and Python"
    NETWORK = "ports and network"
    CLUSTER = "on a cluster"
    SHOWN = "how it is shown"  # of the command line only
    FAILURES = "test failures"


class Row(Struct, frozen=True):
    kind: Kind
    help: str
    metavar: str = ""
    project: str = ""  # the key of a project's pumice.toml that sets it
    config: bool = False  # the user's own config.toml may set it, by the name of the flag
    setting: str = ""  # the field of Settings that has its value
    option: str = ""  # the field of RunOptions that has its value, if that has another name
    once: bool = False  # it is about one run: a command to type again leaves it out
    background: bool = False  # only for runs that outlive their client
    instead: Advice = ""  # for an option of this machine only: what to use on a cluster
    cluster: str = ""  # the field of ClusterOptions that has its value
    cluster_kind: Kind | None = None  # how it is read on a cluster, if not as on this machine
    has_flag: bool = True  # else the command line has another place for it
    group: Group | None = None  # every row has one, those of `ClusterRows` that of a cluster; a test names others

    @property
    def scope(self) -> Scope:
        if self.instead:
            return Scope.MACHINE
        is_common = self.setting or self.option or self.cluster_kind is not None
        return Scope.CLUSTER if self.cluster and not is_common else Scope.BOTH
