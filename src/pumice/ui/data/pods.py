"""The pods of an attempt: state, rank, address, limits, how they ended, and what they use or used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.client.observer import PodAddress
from pumice.diagnosis.pod_ends import OOM_KILLED, how_it_ended, one_line
from pumice.model.job import TaskSpec
from pumice.model.pod import all_containers
from pumice.model.quantity import Quantity
from pumice.model.slot import slots
from pumice.store.history.pod_life import PodLife
from pumice.store.history.run_history import RunHistory
from pumice.ui.data.metrics import NO_LIMIT, Limit, PodSeries, rounded
from pumice.ui.data.states import AttemptStates
from pumice.ui.detail_values import PodPage, PodRow

PAGE: Final = 1000
POINTS: Final = 40
_LIMITED: Final = ("cpu", "memory")
_NOWHERE: Final = PodAddress()
_MOST_LINES: Final = 64  # more pods are cells, not rows with lines


def pod_names(history: RunHistory, states: AttemptStates) -> list[str]:
    """Return the names of the pods of an attempt, by task and index."""
    lives = (life.name for life in history.lives_of(states.attempt))
    names = dict.fromkeys((*(slot.short_name for slot in slots(history.job)), *lives))
    return [name for name in names if name in states.states]


def page_of(names: Sequence[str], after: str) -> Sequence[str]:
    """Return the names that follow one on a page; `after` is the last pod of the page before."""
    begin = names.index(after) + 1 if after in names else 0
    return names[begin : begin + PAGE]


class PodFacts(Struct, frozen=True):
    """What is known of pods beside their history, by name."""

    samples: Mapping[str, PodSeries]
    ranks: Mapping[str, int]
    addresses: Mapping[str, PodAddress]


def pod_page(history: RunHistory, states: AttemptStates, after: str, facts: PodFacts) -> PodPage:
    """Return the pods of an attempt, by task and index; `after` is the last pod of the page before."""
    lives = {life.name: life for life in history.lives_of(states.attempt)}
    names = pod_names(history, states)
    shown = page_of(names, after)
    limits = {task.name: limits_of(history, task) for task in history.job.spec.tasks}
    none = dict.fromkeys(_LIMITED, NO_LIMIT)
    items = []
    for name in shown:
        task, _, index = name.rpartition("-")
        limit = {resource: each.amount for resource, each in limits.get(task, none).items()}
        location = facts.addresses.get(name, _NOWHERE)
        row = PodRow(
            pod=name,
            task=task,
            index=int(index) if index.isdecimal() else 0,
            attempt=lives[name].attempt if name in lives else states.attempt,
            state=states.states[name],
            rank=facts.ranks.get(name),
            address=location.address,
            node=location.node,
            cpu_limit=limit["cpu"],
            memory_limit=None if limit["memory"] is None else int(limit["memory"]),
            **_life(lives[name]) if name in lives else {},
        )
        items.append(_with_samples(row, facts.samples.get(name), lines=len(names) <= _MOST_LINES))
    return PodPage(
        attempt=states.attempt,
        items=tuple(items),
        total=len(names),
        counts=states.counts(),
        after=shown[-1] if shown and shown[-1] != names[-1] else "",
    )


def _life(life: PodLife) -> dict[str, Any]:
    """Return what is known of a pod that was created."""
    end = life.pod.first_failure or next(iter(life.pod.ends), None)
    ended = {} if end is None else {"exit": how_it_ended(end), "exit_code": end.exit_code}
    return {
        **ended,
        "restarts": max(life.pod.restarts, sum(piece.how is not None for piece in life.runs)),
        "reason": life.pod.reason or ("" if end is None else end.reason),
        "last_line": "" if end is None else one_line(end.last_line),
        "gpus": life.gpus,
        "start": life.runs[0].start if life.runs else None,
        "end": life.ended,
    }


def _with_samples(row: PodRow, series: PodSeries | None, *, lines: bool) -> PodRow:
    if series is None or not series.times:
        return row
    gpu_memory = series.last("gpuMemory")
    # Of a pod that was killed for its memory, what it had is the cause.
    memory = series.peak("memory") if row.reason == OOM_KILLED else series.last("memory")
    return msgspec.structs.replace(
        row,
        cpu=series.last("cpu"),
        memory=None if memory is None else int(memory),
        gpu=series.last("gpu"),
        gpu_memory=None if gpu_memory is None else int(gpu_memory),
        cpu_points=points(series.known("cpu")) if lines else (),
        memory_points=points(series.known("memory")) if lines else (),
    )


def points(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return at most POINTS values: the highest of each part, so that no peak is lost; None where none is known."""
    if len(values) <= POINTS:
        return rounded(values)
    ends = [index * len(values) // POINTS for index in range(POINTS + 1)]
    parts = (values[begin:end] for begin, end in pairwise(ends))
    return rounded([max((each for each in part if each is not None), default=None) for part in parts])


def read_ranks(manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Read the ranks of pods from their variables, as a plugin gave them to their programs."""
    found: dict[str, int] = {}
    for name, manifest in manifests.items():
        spec = manifest.get("spec")
        for container in all_containers(spec) if isinstance(spec, dict) else []:
            for variable in container.get("env") or []:
                text = str(variable.get("value", "")) if isinstance(variable, dict) else ""
                if text.isdecimal() and variable.get("name") in ("RANK", "PET_NODE_RANK", "OMPI_COMM_WORLD_RANK"):
                    found.setdefault(name, int(text))
    return found


def limits_of(history: RunHistory, task: TaskSpec) -> dict[str, Limit]:
    """Return by resource what the containers of a pod may use together; none if one of them has no limit."""
    unenforced = history.unenforced.get(task.name, ())
    written = {name: _limit(task, name) for name in _LIMITED}
    return {name: Limit(unenforced=amount) if name in unenforced else Limit(amount) for name, amount in written.items()}


def common_limits(history: RunHistory) -> dict[str, Limit]:
    """Return the limits that the pods of all tasks have; none of a resource for which they differ."""
    tasks = [limits_of(history, task) for task in history.job.spec.tasks]
    found = {name: {each[name] for each in tasks} for name in _LIMITED}
    return {name: limits.pop() if len(limits) == 1 else NO_LIMIT for name, limits in found.items()}


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
