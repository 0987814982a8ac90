"""Pods as rendered: the origin of each variable, port and mount, differences between pods, and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pumice.admission.admit import Admitted, admit
from pumice.client.explanation import Explained, explain, find_slots, heading
from pumice.model.slot import slots
from pumice.model.vocabulary import VOLCANO
from pumice.plugins.base import PluginError
from pumice.plugins.shaping import shaped_pod
from pumice.reconcile.gangs import GangMembership
from pumice.runtime.offline_context import offline_context
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.history.run_history import RunHistory
from pumice.ui.data.pods import read_ranks
from pumice.ui.data.policies import yaml_of
from pumice.ui.detail_values import Rendered, RenderedItem

_MOST_RUNS: Final = 8
_MOST_NAMES: Final = 2000
# Plugins that number the pods.
_WITH_RANKS: Final = frozenset(("pytorch", "hcclrank", "mpi", "tensorflow"))


@dataclass(slots=True)
class RenderedPods:
    # By uid, the job of a run as it was admitted, and the ranks of its pods.
    _runs: RecentlyUsed[str, tuple[Admitted, Mapping[str, int]]] = field(
        default_factory=lambda: RecentlyUsed(_MOST_RUNS)
    )

    def ranks(self, history: RunHistory) -> Mapping[str, int]:
        return self._admitted(history)[1]

    def rendered(self, history: RunHistory, pod: str, attempt: int, compare: str) -> Rendered:
        """Return a pod as it is created; without a name the first one. `compare` is another pod."""
        names = tuple(slot.short_name for _, slot in zip(range(_MOST_NAMES), slots(history.job), strict=False))
        ranks = self.ranks(history)
        numbered = tuple(map(ranks.get, names)) if ranks else ()
        empty = Rendered(pod=pod, name="", attempt=attempt, pods=names, ranks=numbered)
        try:
            return self._rendered(history, empty, compare)
        except PluginError as error:
            return msgspec.structs.replace(empty, message=str(error))

    def _rendered(self, history: RunHistory, empty: Rendered, compare: str) -> Rendered:
        found = self._explained(history, empty.pod or (empty.pods[0] if empty.pods else ""))
        if found is None:
            return msgspec.structs.replace(empty, message=f"{empty.pod}: no such pod")
        slot = found.slot
        other = self._explained(history, compare) if compare else None
        neighbour = None
        if slot.task.replicas > 1:
            neighbour = self._explained(history, f"{slot.task.name}-{0 if slot.index else 1}")
        env = {trace.name: trace.value for trace in found.traces if trace.kind == "env"}
        world, plugins = env.get("WORLD_SIZE", ""), (*self._admitted(history)[0].plugins, GangMembership(VOLCANO))
        return msgspec.structs.replace(
            empty,
            pod=slot.short_name,
            name=slot.pod_name,
            rank=self.ranks(history).get(slot.short_name),
            world=int(world) if world.isdecimal() else None,
            compare=compare if other is not None else "",
            items=tuple(_items(found, neighbour, other)),
            manifest=yaml_of(shaped_pod(slot, plugins).manifest),
        )

    def _explained(self, history: RunHistory, name: str) -> Explained | None:
        position, slot = next(find_slots(history.job, name), (0, None)) if name else (0, None)
        if slot is None:
            return None
        marks, admitted = history.source.marks, self._admitted(history)[0]
        membership = GangMembership(VOLCANO)
        return explain(
            admitted, position, slot, membership, lambda path: None if marks is None else marks.position(path)[0]
        )

    def _admitted(self, history: RunHistory) -> tuple[Admitted, Mapping[str, int]]:
        uid = history.record.uid
        known = self._runs.get(uid)
        if known is None:
            admitted = admit(history.record.job, offline_context())
            named = _WITH_RANKS & set(history.job.spec.plugins)
            manifests: dict[str, Any] = {}
            if named and admitted.is_good:
                for slot in slots(history.job):
                    manifests[slot.short_name] = shaped_pod(slot, admitted.plugins).manifest
            known = admitted, read_ranks(manifests)
        return self._runs.keep(uid, known)


def _items(found: Explained, neighbour: Explained | None, other: Explained | None) -> list[RenderedItem]:
    beside = {} if neighbour is None else {trace.key: trace.value for trace in neighbour.traces}
    compared = {} if other is None else {trace.key: trace.value for trace in other.traces}
    return [
        RenderedItem(
            heading=heading(trace),
            kind=trace.kind,
            container=trace.container,
            name=trace.name or trace.kind,
            value=trace.value,
            by=trace.by,
            why=found.why(trace),
            line=found.line(trace),
            per_pod=neighbour is not None and beside.get(trace.key) != trace.value,
            other=compared.get(trace.key),
            differs=other is not None and compared.get(trace.key) != trace.value,
        )
        for trace in found.in_order()
    ]
