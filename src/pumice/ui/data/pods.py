"""The pods of an attempt: state, rank, address, limits, how they ended, and what they use or used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.engines.local.network.addresses import Addresses, AddressesExhaustedError
from pumice.engines.local.options import Isolation
from pumice.engines.local.plain_processes.loopback_names import Translation
from pumice.engines.local.verdict import one_line
from pumice.model.job import TaskSpec
from pumice.model.pod import all_containers
from pumice.model.quantity import Quantity
from pumice.model.slot import slots
from pumice.reconcile.verdict import how_it_ended
from pumice.ui.data.history import PodLife, RunHistory
from pumice.ui.data.metrics import PodSeries
from pumice.ui.data.states import AttemptStates
from pumice.ui.detail_values import PodPage, PodRow
from pumice.ui.values import PodState

PAGE: Final = 1000
POINTS: Final = 40
_MOST_LINES: Final = 64  # more pods are cells, not rows with lines


@dataclass(frozen=True, slots=True)
class Limits:
    cpu: float | None = None
    memory: int | None = None


def pod_page(
    history: RunHistory, states: AttemptStates, samples: Mapping[str, PodSeries], after: str, rank: Ranks
) -> PodPage:
    """Return the pods of an attempt, by task and index; `after` is the last pod of the page before."""
    lives = {life.name: life for life in history.of_attempt(states.attempt)}
    names = list(dict.fromkeys((*(slot.short_name for slot in slots(history.job)), *lives)))
    names = [name for name in names if name in states.states]
    begin = names.index(after) + 1 if after in names else 0
    shown = names[begin : begin + PAGE]
    addresses = Addresses(slot.short_name for slot in slots(history.job))
    limits = {task.name: limits_of(task) for task in history.job.spec.tasks}
    items = []
    for name in shown:
        row = _row(name, lives.get(name), states)
        task = limits.get(row.task, Limits())
        row = msgspec.structs.replace(
            row,
            rank=rank.of(name),
            address=_address(history, addresses, name),
            node=history.run.record.host,
            cpu_limit=task.cpu,
            memory_limit=task.memory,
        )
        items.append(_with_samples(row, samples.get(name), lines=len(names) <= _MOST_LINES))
    return PodPage(
        attempt=states.attempt,
        items=tuple(items),
        total=len(names),
        counts=states.counts(),
        after=shown[-1] if len(names) > begin + PAGE else "",
    )


def _row(name: str, life: PodLife | None, states: AttemptStates) -> PodRow:
    task, _, index = name.rpartition("-")
    state = states.states.get(name, PodState.WAITING)
    row = PodRow(pod=name, task=task, index=int(index) if index.isdecimal() else 0, attempt=states.attempt, state=state)
    if life is None:
        return row
    end = life.pod.first_failure or next(iter(life.pod.ends), None)
    return msgspec.structs.replace(
        row,
        attempt=life.attempt,
        restarts=max(life.pod.restarts, sum(piece.how is not None for piece in life.runs)),
        exit="" if end is None else how_it_ended(end),
        exit_code=None if end is None else end.exit_code,
        reason=life.pod.reason or ("" if end is None else end.reason),
        last_line="" if end is None else one_line(end.last_line),
        gpus=life.gpus,
        start=life.runs[0].start if life.runs else None,
        end=life.ended,
    )


def _with_samples(row: PodRow, series: PodSeries | None, *, lines: bool) -> PodRow:
    if series is None or not series.times:
        return row
    memory, gpu_memory = series.last("memory"), series.last("gpuMemory")
    row = msgspec.structs.replace(
        row,
        cpu=series.last("cpu"),
        memory=None if memory is None else int(memory),
        gpu=series.last("gpu"),
        gpu_memory=None if gpu_memory is None else int(gpu_memory),
    )
    if not lines:
        return row
    return msgspec.structs.replace(
        row,
        cpu_points=points(series.known("cpu")),
        memory_points=points(series.known("memory")),
        gpu_points=points(series.known("gpu")) if gpu_memory is not None else (),
    )


def points(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return at most POINTS values: the highest of each part, so that no peak is lost; None where none is known."""
    if len(values) <= POINTS:
        return tuple(None if each is None else round(each, 3) for each in values)
    found: list[float | None] = []
    for index in range(POINTS):
        part = values[index * len(values) // POINTS : (index + 1) * len(values) // POINTS]
        found.append(max((each for each in part if each is not None), default=None))
    return tuple(None if each is None else round(each, 3) for each in found)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of pods, as a plugin gave them to their programs."""

    by_pod: Mapping[str, int]

    def of(self, pod: str) -> int | None:
        return self.by_pod.get(pod)


def ranks_of(manifests: Mapping[str, Mapping[str, Any]]) -> Ranks:
    """Read RANK from the variables of pods."""
    found: dict[str, int] = {}
    for name, manifest in manifests.items():
        spec = manifest.get("spec")
        for container in all_containers(spec) if isinstance(spec, dict) else []:
            for variable in container.get("env") or []:
                text = str(variable.get("value", "")) if isinstance(variable, dict) else ""
                if text.isdecimal() and variable.get("name") in ("RANK", "PET_NODE_RANK", "OMPI_COMM_WORLD_RANK"):
                    found.setdefault(name, int(text))
    return Ranks(found)


def limits_of(task: TaskSpec) -> Limits:
    """Return what the containers of a pod may use together; None if one has no limit."""
    return Limits(_limit(task, "cpu"), None if (memory := _limit(task, "memory")) is None else int(memory))


def _limit(task: TaskSpec, name: str) -> float | None:
    total = 0.0
    containers = task.pod_spec.get("containers")
    for container in containers if isinstance(containers, list) else []:
        resources = container.get("resources") if isinstance(container, dict) else None
        limits = resources.get("limits") if isinstance(resources, dict) else None
        if not isinstance(limits, dict) or name not in limits:
            return None
        try:
            total += Quantity.parse(limits[name]).milli_value() / 1000
        except ValueError:
            return None
    return total if containers else None


def _address(history: RunHistory, addresses: Addresses, name: str) -> str:
    """Return the address that a pod has; pods that are plain processes have their own on loopback."""
    try:
        found = addresses.of(name)
    except AddressesExhaustedError:
        return ""
    plain = history.run.record.options.get("isolation") == Isolation.PROCESS
    return Translation().loopback(found) if plain else found
