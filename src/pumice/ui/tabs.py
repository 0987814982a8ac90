"""What the tabs of a job list: rows by task, options of fields, links that keep a choice, log lines, the verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from pumice.diagnosis.hang import PY_SPY, hang_groups
from pumice.diagnosis.verdict import FailedPod, Verdict
from pumice.diagnosis.verdict_lines import verdict_rows
from pumice.ui.detail_values import JobView, PodPage, PodRow, Rendered, RenderedItem, Volume
from pumice.ui.values import Holder, Job, Waiting
from pumice.ui.words import KIB, duration, plural, query

PLUGIN_COLOURS: Final = ("pl1", "pl2", "pl3", "pl4")
HEIGHT: Final = 26  # of the lines by time
_NOT_PLUGINS: Final = {"you": "you", "default": "df", "job": "jb"}
_ORIGINS: Final = {"you": "you", "default": "defaults", "job": "defaults"}
SGR: Final = re.compile("\x1b\\[([0-9;]{0,40})m")
NORMAL, BRIGHT = range(30, 38), range(90, 98)
NO_WEIGHT, NO_COLOUR = 22, 39
GROUPS: Final = 3  # of followers that are named
NAMED: Final = 8  # followers of a group that are named
Rows = list[tuple[str, str]]
Options = list[tuple[str, str]]

# --- pods ---------------------------------------------------------------------------------------------------------


def rows_by_pod(pods: PodPage | None) -> dict[str, PodRow]:
    return {row.pod: row for row in pods.items} if pods else {}


def by_task(rows: Iterable[PodRow]) -> list[tuple[str, list[PodRow]]]:
    return [(task, list(members)) for task, members in groupby(rows, key=lambda row: row.task)]


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


VolumeBar = tuple[float, float, float, float, int]  # its position, size and first line


def log_volume(volume: Volume, first_error: int | None) -> tuple[Sequence[VolumeBar], Sequence[float]]:
    """Return the bars of lines, and the positions of those of errors."""
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
    return (bars, [round(index * wide, 1) for index in sorted(failures)])


def message_parts(text: str, q: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a line with the classes of their colours. Every second piece of a part is a match of `q`."""
    pattern = re.compile(f"({re.escape(q)})", re.IGNORECASE) if q else None
    style: tuple[str, ...] = ()
    at = 0
    for match in [*SGR.finditer(text), None]:
        part = text[at : match.start() if match else len(text)]
        if part:
            yield " ".join(style), pattern.split(part) if pattern else [part]
        if match:
            style, at = _sgr(style, match[1]), match.end()


def _sgr(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """Return the classes after an escape sequence for colours: bold, dim and the 16 colours."""
    for code in codes.split(";"):
        value = int(code or "0")
        if value == 0:
            style = ()
        elif value in {1, 2}:
            weight = "a-b" if value == 1 else "a-d"
            style = style if weight in style else (*style, weight)
        elif value == NO_WEIGHT:
            style = tuple(each for each in style if each not in {"a-b", "a-d"})
        elif value in NORMAL or value in BRIGHT or value == NO_COLOUR:
            style = tuple(each for each in style if not each.startswith("a-c"))
            style = style if value == NO_COLOUR else (*style, f"a-c{value % 10}")
        elif value in {38, 48}:  # a colour by number: its parameters follow, and no later one is a code
            return style
    return style


# --- the verdict ------------------------------------------------------------------------------------------------------


def others_words(verdict: Verdict) -> str:
    """Return what the other pods did: `The other 6 pods only followed`."""
    if verdict.stopped or verdict.left_early:
        return ""
    alone, count = len(verdict.independent), len(verdict.followers)
    if alone:
        return f"{plural(alone, 'more pod')} failed on {'its' if alone == 1 else 'their'} own."
    if count > 1:
        return f"The other {plural(count, 'pod')} only followed."
    return f"{verdict.followers[0].pod} only followed." if count else ""


def _followers_words(pods: Sequence[FailedPod]) -> str:
    """Return `master-0 (exit code 1, 0.3 s later) and worker-0 to worker-6 (exit code 1, 0.4 to 0.9 s later)`."""
    groups: dict[tuple[str, str], list[FailedPod]] = {}
    for each in pods:
        groups.setdefault((each.task, each.exit), []).append(each)
    parts = []
    for (task, exit_words), members in groups.items():
        delays = [round(each.after, 3) for each in members if each.after is not None]
        later = ""
        if delays:
            low, high = duration(min(delays)), duration(max(delays))
            later = f", {high} later" if low == high else f", {low.removesuffix(' s')} to {high} later"
        indexes = ", ".join(each.pod.rpartition("-")[2] for each in members[:NAMED])
        more = f" and {len(members) - NAMED} more" if len(members) > NAMED else ""
        parts.append(f"{task}-{indexes}{more} ({exit_words}{later})")
    return "; ".join(parts[:GROUPS]) + (f"; {len(parts) - GROUPS} more groups" if len(parts) > GROUPS else "")


def verdict_facts(job: Job, verdict: Verdict) -> Rows:
    """Return the rows of the verdict, as a terminal shows them. Logs are on the page themselves."""
    shorter = {"then": _followers_words(verdict.followers), "also failed": _followers_words(verdict.independent)}
    rows = [(name, shorter.get(name, text)) for name, text in verdict_rows(verdict) if name not in {"log", "logs"}]
    if job.before:
        rows.insert(_position(rows, "policy", "next"), ("before", job.before))
    position = _position(rows, "next")
    return [*rows[:position], *now_rows(job), *rows[position:]]


def _position(rows: Rows, *names: str) -> int:
    return next((index for index, (name, _) in enumerate(rows) if name in names), len(rows))


def now_rows(job: Job) -> Rows:
    """Return what changed of the code, what the pods of a job that hangs do, and what would show more of it."""
    rows = [("code", job.code)] if job.code else []
    if (hang := job.hang) is not None:
        groups, more = hang_groups(hang), hang.running - len(hang.doing)
        rows += [("doing", words) for words in groups]
        rows += [("", f"and {plural(more, 'more pod')}")] if groups and more else []
        rows += [("hint", PY_SPY)] if hang.lacks_py_spy else []
    return rows
