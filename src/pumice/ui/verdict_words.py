"""The verdict of a job, and what its pods do while it hangs, as rows of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pumice.diagnosis.hang import PY_SPY, Hang, hang_groups
from pumice.diagnosis.verdict import FailedPod, Verdict
from pumice.diagnosis.verdict_lines import verdict_rows
from pumice.ui.values import Job
from pumice.ui.words import duration, plural

GROUPS: Final = 3  # of followers that are named
NAMED: Final = 8  # followers of a group that are named
Rows = list[tuple[str, str]]


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


def followers_words(pods: Sequence[FailedPod]) -> str:
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
    shorter = {"then": followers_words(verdict.followers), "also failed": followers_words(verdict.independent)}
    rows = [(name, shorter.get(name, text)) for name, text in verdict_rows(verdict) if name not in {"log", "logs"}]
    if job.before:
        rows.insert(_position(rows, "policy", "next"), ("before", job.before))
    position = _position(rows, "next")
    return [*rows[:position], *now_rows(job), *rows[position:]]


def _position(rows: Rows, *names: str) -> int:
    return next((index for index, (name, _) in enumerate(rows) if name in names), len(rows))


def now_rows(job: Job) -> Rows:
    """Return what changed of the code, what the pods of a job that hangs do, and what would show more of it."""
    return [*([("code", job.code)] if job.code else []), *_hang_rows(job.hang)]


def _hang_rows(hang: Hang | None) -> Rows:
    if hang is None:
        return []
    groups, more = hang_groups(hang), hang.running - len(hang.doing)
    rows = [("doing", words) for words in groups]
    rows += [("", f"and {plural(more, 'more pod')}")] if groups and more else []
    return rows + ([("hint", PY_SPY)] if hang.lacks_py_spy else [])
