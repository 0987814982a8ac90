"""What a run is asked to do beyond its Job: sizes, kills, published ports, network, isolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumice.engines.local.isolation import Isolation, Network
from pumice.engines.local.state.settings import Settings


class SettingsError(Exception):
    """A flag or a line of pumice.toml that cannot be understood; the message says which and what is accepted."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill a pod so long after the job first ran."""

    pod: str
    after: float


@dataclass(frozen=True, slots=True)
class Publish:
    pod: str
    port: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    settings: Settings
    scale: Mapping[str, int] = field(default_factory=dict)
    kills: tuple[Kill, ...] = ()
    publish: tuple[Publish, ...] = ()
    timeout: float | None = None
    network: Network = Network.OUTBOUND
    isolation: Isolation = Isolation.AUTO
    named_images: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by flag
