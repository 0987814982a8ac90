"""hcclrank: sets the rank of each pod for Huawei's collective communication library (HCCL).

Pods of the master and worker tasks get the annotation `hccl/rankIndex`, unless the template has it. A literal RANK in
the environment (the user's, or the pytorch plugin's, which runs before) is the rank; otherwise masters come first, then
workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pumice.model.keys import HCCL_RANK
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins import ranks
from pumice.plugins.base import Base, option


@dataclass(frozen=True, slots=True)
class HcclRank(Base):
    name: ClassVar[str] = "hcclrank"
    summary: ClassVar[str] = "sets the rank of each pod for Huawei's HCCL"
    example: ClassVar[tuple[str, ...]] = ("--master=master", "--worker=worker")

    master: str = option("master", "task that holds the first ranks")
    worker: str = option("worker", "task that holds the ranks after them")

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if pod.annotations.get(HCCL_RANK):
            return pod
        rank = _rank_in_env(pod)
        if not rank:
            own = ranks.rank(slot, self.master, self.worker)
            if own is None:
                return pod
            rank = str(own)
        return pod.with_annotation(HCCL_RANK, rank)

    def why(self, slot: Slot) -> Mapping[str, str]:
        return {f"annotation {HCCL_RANK}": "RANK of the pod"}


def _rank_in_env(pod: Pod) -> str:
    for container in pod.containers:
        for variable in container.get("env") or []:
            if variable["name"] == "RANK" and variable.get("value"):
                return str(variable["value"])
    return ""
