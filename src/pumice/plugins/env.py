"""env: sets the index of each pod within its task.

Every container and init container gets VC_TASK_INDEX, and VK_TASK_INDEX for jobs that still use the older name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model.pod import Pod, env_values
from pumice.model.slot import Slot
from pumice.plugins.base import Base

OLD_INDEX: Final = "VK_TASK_INDEX"
INDEX: Final = "VC_TASK_INDEX"


@dataclass(frozen=True, slots=True)
class Env(Base):
    name: ClassVar[str] = "env"
    summary: ClassVar[str] = "sets the index of each pod within its task"

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        index = str(slot.index)
        return pod.with_env(env_values({OLD_INDEX: index, INDEX: index}))

    def why(self, slot: Slot) -> Mapping[str, str]:
        return {
            f"env {OLD_INDEX}": "the same, by its older name",
            f"env {INDEX}": f"index within task {slot.task.name}",
        }
