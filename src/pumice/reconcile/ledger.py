"""The ledger: what the controller must know after a restart.

It is stored in `status.controlledResources`, the map of strings that Volcano's CRD has. A pass writes it together with
the phase in one compare-and-set, so that a crash loses no decision and counts nothing twice. Entries of other programs
(`plugin-svc`, `volume-pvc-x`) are kept. Invalid values under our own names are ignored.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.job import MIN_AVAILABLE, JobStatus, first_min_available
from pumice.model.slot import MOST_PODS, NONE, Indexes, read_indexes, write_indexes
from pumice.model.units import is_number, read_number, read_time, to_microseconds
from pumice.model.vocabulary import MAX_RETRY

LEDGER: Final = "pumice/"

ByTask = Mapping[str, Indexes]


class RestartKind(StrEnum):
    ALL = "all"  # every pod of the earlier version
    UNSUCCESSFUL = "unsuccessful"  # resumed: what succeeded stays
    TARGETS = "targets"  # some pods of this version


_KINDS: Final = frozenset(str(kind) for kind in RestartKind)


class Restart(Struct, frozen=True):
    """A restart under way: which pods it replaces. Kept until they are gone."""

    kind: RestartKind
    retry: int = 0  # only targets that were created before this retry are replaced
    targets: ByTask = field(default_factory=dict)


class Ledger(Struct, frozen=True):
    spent: int = 0  # of maxRetry
    generation: int = 0  # of the spec that was last acted on
    void: int = 0  # successes of earlier versions were voided by a restart of the whole job
    seen: ByTask = field(default_factory=dict)  # indexes that had a pod at this version
    succeeded: ByTask = field(default_factory=dict)  # indexes that need no pod any more
    restart: Restart | None = None
    restarts_by_task: Mapping[str, int] = field(default_factory=dict)
    evicted: Mapping[str, dt.datetime] = field(default_factory=dict)  # pods that wait for a policy's timeout
    noticed: Mapping[str, dt.datetime] = field(default_factory=dict)  # the same for other events
    unknown_since: dt.datetime | None = None
    first_running: dt.datetime | None = None
    suspended: bool = False  # by spec.suspend, not by a Command
    obeyed: frozenset[str] = frozenset()  # uids of Commands
    min_available: Mapping[str, int] = field(default_factory=dict)  # at first: see MIN_AVAILABLE
    waiting: str = ""  # the uid of the pod that the status says is waiting
    others: Mapping[str, str] = field(default_factory=dict)

    def without_targets(self, targets: ByTask) -> Ledger:
        """Drop what is recorded about pods that a restart replaces."""
        return replace(
            self,
            seen={task: indexes - targets.get(task, NONE) for task, indexes in self.seen.items()},
            succeeded={task: indexes - targets.get(task, NONE) for task, indexes in self.succeeded.items()},
        )


def split_name(short_name: str) -> tuple[str, int]:
    """Return task and index of a pod of the ledger."""
    task, _, index = short_name.rpartition("-")
    return task, int(index)


def most_attempts(max_retry: int, status: JobStatus) -> int:
    """Return how many attempts a job may have: `maxRetry`, and one more for each restart that cost no retry.

    Those are restarts after evictions, such as of pods that were lost with their process, and after updates. Volcano's
    controller, which keeps no ledger, counts every restart.
    """
    has_ledger = any(key.startswith(LEDGER) for key in status.controlled_resources)
    free = status.retry_count - read_ledger(status).spent if has_ledger else 0
    return (max_retry or MAX_RETRY) + max(0, free)


def read_ledger(status: JobStatus) -> Ledger:
    entries = status.controlled_resources
    own = {key.removeprefix(LEDGER): value for key, value in entries.items() if key.startswith(LEDGER)}
    if not own:
        # Of Volcano's controller, or of a Job that has just begun.
        return Ledger(min_available=first_min_available(entries), others=dict(entries))
    kind, _, retry = own.get("restart", "").partition("@")
    restart = None
    if kind in _KINDS:
        restart = Restart(RestartKind(kind), read_number(retry), _read_by_task(own, "target/"))
    return Ledger(
        spent=read_number(own.get("spent", "")),
        generation=read_number(own.get("generation", "")),
        void=read_number(own.get("void", "")),
        seen=_read_by_task(own, "seen/"),
        succeeded=_read_by_task(own, "succeeded/"),
        restart=restart,
        restarts_by_task={task: read_number(count) for task, count in _under(own, "restarts/").items()},
        evicted={pod: since for pod, since in _moments(own, "evicted/").items() if is_number(pod.rpartition("-")[2])},
        noticed=_moments(own, "noticed/"),
        unknown_since=read_time(own.get("unknown-since")),
        first_running=read_time(own.get("first-running")),
        suspended="suspended" in own,
        obeyed=frozenset(_under(own, "obeyed/")),
        min_available=first_min_available(entries),
        waiting=own.get("waiting", ""),
        others={key: value for key, value in entries.items() if not key.startswith(LEDGER)},
    )


def write_ledger(ledger: Ledger) -> dict[str, str]:
    own: dict[str, str] = {}
    for name, number in (("spent", ledger.spent), ("generation", ledger.generation), ("void", ledger.void)):
        if number:
            own[name] = str(number)
    own |= _written_by_task("seen/", ledger.seen) | _written_by_task("succeeded/", ledger.succeeded)
    if ledger.restart is not None:
        own["restart"] = f"{ledger.restart.kind}@{ledger.restart.retry}"
        own |= _written_by_task("target/", ledger.restart.targets)
    own |= {f"restarts/{task}": str(count) for task, count in ledger.restarts_by_task.items()}
    own |= {f"evicted/{pod}": to_microseconds(moment) for pod, moment in ledger.evicted.items()}
    own |= {f"noticed/{what}": to_microseconds(moment) for what, moment in ledger.noticed.items()}
    if ledger.unknown_since is not None:
        own["unknown-since"] = to_microseconds(ledger.unknown_since)
    if ledger.first_running is not None:
        own["first-running"] = to_microseconds(ledger.first_running)
    if ledger.suspended:
        own["suspended"] = "true"
    own |= {f"obeyed/{uid}": "true" for uid in ledger.obeyed}
    if ledger.waiting:
        own["waiting"] = ledger.waiting
    first = {f"{MIN_AVAILABLE}/{task}".rstrip("/"): str(number) for task, number in ledger.min_available.items()}
    return dict(sorted({**ledger.others, **first, **{LEDGER + key: value for key, value in own.items()}}.items()))


def _under(own: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in own.items() if key.startswith(prefix)}


def _moments(own: Mapping[str, str], prefix: str) -> dict[str, dt.datetime]:
    read = {key: read_time(text) for key, text in _under(own, prefix).items()}
    return {key: moment for key, moment in read.items() if moment is not None}


def _read_by_task(own: Mapping[str, str], prefix: str) -> dict[str, Indexes]:
    found: dict[str, Indexes] = {}
    room = MOST_PODS
    for task, text in _under(own, prefix).items():
        if room > 0 and (indexes := read_indexes(text)):
            found[task] = indexes
            room -= len(indexes)
    return found


def _written_by_task(prefix: str, by_task: ByTask) -> dict[str, str]:
    return {prefix + task: write_indexes(indexes) for task, indexes in by_task.items() if indexes}
