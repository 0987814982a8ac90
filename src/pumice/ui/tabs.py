"""What the tabs of a job list: rows by task, the options of fields, and the links that keep a choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from pumice.ui.detail_values import PodPage, PodRow, Rendered, RenderedItem, Volume
from pumice.ui.marks import count_states, count_words
from pumice.ui.values import Holder, Job, Waiting
from pumice.ui.views import JobView
from pumice.ui.words import KIB, query

PLUGIN_COLOURS: Final = ("pl1", "pl2", "pl3", "pl4")
HEIGHT: Final = 26  # of the lines by time
_NOT_PLUGINS: Final = {"you": "you", "default": "df", "job": "jb"}
_ORIGINS: Final = {"you": "you", "default": "defaults", "job": "defaults"}
Options = list[tuple[str, str]]

# --- pods ---------------------------------------------------------------------------------------------------------


def rows_by_pod(pods: PodPage | None) -> dict[str, PodRow]:
    return {row.pod: row for row in pods.items} if pods else {}


def by_task(rows: Iterable[PodRow]) -> list[tuple[str, list[PodRow]]]:
    return [(task, list(members)) for task, members in groupby(rows, key=lambda row: row.task)]


def state_words(rows: Iterable[PodRow]) -> str:
    return count_words(count_states(row.state for row in rows))


def cell_words(groups: Mapping[str, int]) -> str:
    """Return `641 running, 352 done`."""
    return ", ".join(f"{count:,} {name}" for name, count in groups.items() if count)


def short_gib(amount: float) -> str:
    return f"{amount / KIB**3:.3g}"


def first_failures(job: Job) -> set[tuple[int, str]]:
    """Return attempt and name of the pods that failed first."""
    return {(attempt.number, attempt.first) for attempt in job.attempts if attempt.first}


def holders(waiting: Waiting) -> dict[str, list[Holder]]:
    """Return by name which runs and programs hold what is short, once for each resource."""
    found: dict[str, list[Holder]] = {}
    for shortage in waiting.short:
        for holder in shortage.held_by if shortage.short else ():
            found.setdefault(holder.job, []).append(holder)
    return found


# --- pods as rendered ---------------------------------------------------------------------------------------------


def ranked_pods(rendered: Rendered) -> list[tuple[str, int | None]]:
    return list(zip(rendered.pods, rendered.ranks or (None,) * len(rendered.pods), strict=True))


def ranked_options(pods: Iterable[tuple[str, int | None]]) -> Options:
    return [(pod, pod if rank is None else f"{pod}, rank {rank}") for pod, rank in pods]


def compare_options(rendered: Rendered) -> Options:
    return [("", "compare with…"), *((pod, pod) for pod in rendered.pods if pod != rendered.pod)]


def by_heading(rendered: Rendered) -> list[tuple[str, list[RenderedItem]]]:
    return [(heading, list(items)) for heading, items in groupby(rendered.items, key=lambda item: item.heading)]


def plugin_colours(rendered: Rendered) -> dict[str, str]:
    """Return the class of the colour of each origin of a value."""
    plugins = [each for each in dict.fromkeys(item.by for item in rendered.items) if each not in _NOT_PLUGINS]
    return _NOT_PLUGINS | {name: PLUGIN_COLOURS[at % len(PLUGIN_COLOURS)] for at, name in enumerate(plugins)}


def origin_group(item: RenderedItem) -> str:
    return _ORIGINS.get(item.by, "plugins")


def origin_counts(rendered: Rendered) -> list[tuple[str, int]]:
    groups = [origin_group(item) for item in rendered.items]
    return [("all", len(groups)), *((name, groups.count(name)) for name in ("you", "plugins", "defaults"))]


# --- logs ---------------------------------------------------------------------------------------------------------


def log_query(view: JobView, at: int) -> str:
    """Return the query that shows other lines of the same choice."""
    chosen = view.chosen
    only = view.logs is not None and view.logs.lines is not None and view.search is not None
    found = {"q": view.search.q if view.search else "", "only": 1} if only else {}
    same = {"attempt": chosen.attempt or "", "pod": chosen.pod, "task": chosen.task, "stream": chosen.stream}
    return query(**same, at=at, **found)


def pod_options(view: JobView) -> Options:
    pods = [row.pod for row in view.pods.items] if view.pods else []
    if view.chosen.pod and view.chosen.pod not in pods:
        pods.insert(0, view.chosen.pod)
    return [("", "all pods"), *((pod, pod) for pod in pods)]


def attempt_options(job: Job) -> list[tuple[int, str]]:
    return [(0, "all attempts"), *((each.number, f"attempt {each.number}") for each in job.attempts)]


class VolumeBars(NamedTuple):
    """Position, height and first line of the bars of lines, and the positions of those of errors."""

    lines: Sequence[tuple[float, float, float, float, int]]
    errors: Sequence[float]


def log_volume(volume: Volume, first_error: int | None) -> VolumeBars:
    wide = 1000 / len(volume.buckets)
    most = max(bucket.lines for bucket in volume.buckets) or 1
    bars = []
    for index, bucket in enumerate(volume.buckets):
        height = max(3.0, (HEIGHT - 2) * bucket.lines / most)
        size = (round(HEIGHT - 2 - height, 1), round(max(1.0, wide * 0.8), 1), round(height, 1))
        bars += [(round(index * wide, 1), *size, bucket.first)] if bucket.lines else []
    failures = {index for index, bucket in enumerate(volume.buckets) if bucket.errors}
    if first_error is not None:
        before = [i for i, bucket in enumerate(volume.buckets) if bucket.lines and bucket.first <= first_error]
        failures.add(before[-1] if before else 0)
    return VolumeBars(bars, [round(index * wide, 1) for index in sorted(failures)])
