"""What is known about a pod once it has a place: its address, its node, what that node has.

The rest of what a pod may ask about itself stands in its manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.model.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    name: str
    namespace: str
    uid: str
    ip: str
    hostname: str
    node_name: str
    host_ip: str
    # What a container without limits may use up: cpu, memory and ephemeral-storage of the machine.
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
