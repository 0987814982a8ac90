"""The list of all runs, for ten thousand of them, and the histories of a few in memory."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.client.local_client import LocalClient
from pumice.engines.local.runs.journal import FILE as JOURNAL
from pumice.engines.local.runs.owner_lock import read_owner
from pumice.engines.local.runs.run_record import FORMAT, RunStatus
from pumice.engines.local.runs.run_store import RECORD, STATUS, StoredRun
from pumice.model.vocabulary import SUSPENDED, Phase
from pumice.ui.data.files import modified_at, size_of
from pumice.ui.data.history import RunHistory
from pumice.ui.values import Group

_EVERYTHING: Final = 15.0  # seconds until runs that have ended are looked at again
_MOST_HISTORIES: Final = 24
_TIMED_OUT: Final = 124
_LONGEST_RECORD: Final = 64 << 20
_MOST_GONE: Final = 1000


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    """What the list needs of `run.json`."""

    uid: str
    namespace: str
    name: str
    number: int
    created: dt.datetime
    format: int = FORMAT
    note: str = ""
    file: str = ""
    job: Mapping[str, Any] = {}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """What the list needs of `status.json`."""

    phase: str = "Pending"
    reason: str = ""
    arrival: int = 0
    started: dt.datetime | None = None
    finished: dt.datetime | None = None
    exit_code: int | None = None


_RECORD: Final = msgspec.json.Decoder(_Record)
_STATUS: Final = msgspec.json.Decoder(_Status)


@dataclass(slots=True)
class Known:
    """A run in the list. `words` is what the filter looks at."""

    directory: str
    uid: str
    name: str
    number: int
    namespace: str
    created: dt.datetime
    words: str
    damaged: str = ""
    changed: int = -1  # when its status was written
    group: Group = Group.DONE
    finished: dt.datetime | None = None

    @property
    def key(self) -> str:
        """What names it in the list; a run whose record cannot be read has no uid."""
        return self.uid or f"{self.namespace}/{self.name}:{self.number}"

    @property
    def order(self) -> tuple[int, float]:
        """Active runs first, then those that wait, then those that ended, the newest first."""
        ranks = {Group.ACTIVE: 0, Group.WAITING: 1, Group.SUSPENDED: 1}
        return (ranks.get(self.group, 2), -(self.finished or self.created).timestamp())


@dataclass(slots=True)
class RunTable:
    client: LocalClient
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, Known] = field(default_factory=dict)  # by directory
    _uids: dict[str, str] = field(default_factory=dict)
    _read: float = float("-inf")
    _active: int = -1  # when the last run began or ended
    version: int = 0
    _sorted: tuple[int, Sequence[Known]] = (-1, ())
    _unfinished: Sequence[Known] = ()
    _histories: OrderedDict[str, RunHistory] = field(default_factory=OrderedDict)  # by uid, the last used last
    # Runs that were removed while the page was open, by uid: NAME:N, and when it was noticed.
    gone: OrderedDict[str, tuple[str, dt.datetime]] = field(default_factory=OrderedDict)

    def forget(self) -> None:
        """Read the store again at the next call, because an action has changed something."""
        self._read = float("-inf")

    def refresh(self) -> int:
        """Read what changed in the store; return a number that differs whenever a run has changed."""
        active = modified_at(str(self.client.store.active))
        if active != self._active or self.clock() - self._read > _EVERYTHING:
            self._scan()
            self._active = active
        for each in self._unfinished:
            self.version += self._update(each)
        return self.version

    def all(self) -> Sequence[Known]:
        """Return all runs, in the order of the list."""
        version = self.refresh()
        if self._sorted[0] != version:
            self._sorted = (version, sorted(self._known.values(), key=lambda each: each.order))
            self._unfinished = [each for each in self._known.values() if each.finished is None]
        return self._sorted[1]

    def find(self, uid: str) -> StoredRun | None:
        """Return the run of a uid; None if there is none, or if it is damaged."""
        directory = self._uids.get(uid)
        if directory is None or not os.path.exists(f"{directory}/{RECORD}"):  # noqa: PTH110 - see `files`
            self._scan()
            directory = self._uids.get(uid)
        run = None if directory is None else self.client.store.load(Path(directory))
        return run if run is not None and run.record.uid == uid else None

    def history(self, run: StoredRun) -> RunHistory:
        """Return the history of a run, up to date."""
        uid = run.record.uid
        known = self._histories.pop(uid, None)
        history = known if known is not None and known.run.directory == run.directory else RunHistory(run)
        history.refresh()
        self._histories[uid] = history
        while len(self._histories) > _MOST_HISTORIES:
            self._histories.popitem(last=False)
        return history

    def _scan(self) -> None:
        found: dict[str, Known] = {}
        for path in self.client.store.directories(self.client.namespace):
            directory = str(path)
            known = self._known.get(directory)
            if known is None or known.damaged:
                known = _known(path)
            self.version += self._update(known)
            found[directory] = known
        self.version += found.keys() != self._known.keys()
        for each in self._known.values():
            if each.uid and each.directory not in found:
                self.gone[each.uid] = (f"{each.name}:{each.number}", self.client.now())
        while len(self.gone) > _MOST_GONE:
            self.gone.popitem(last=False)
        self._known = found
        self._unfinished = [each for each in found.values() if each.finished is None]
        self._uids = {each.uid: each.directory for each in found.values() if each.uid}
        self._read = self.clock()

    def _update(self, known: Known) -> bool:
        """Read the status of a run again if it was written since; return whether it was."""
        path = f"{known.directory}/{STATUS}"
        changed = modified_at(path)
        if changed == known.changed:
            return False
        known.changed = changed
        try:
            status: _Status | RunStatus | None = _STATUS.decode(_content(path))
        except (OSError, msgspec.DecodeError, ValueError):
            run = None if known.damaged else self.client.store.load(Path(known.directory))
            status = None if run is None else run.status()
        if status is None:
            # Nothing says that it waits or runs.
            known.group, known.finished = Group.FAILED, known.created
        else:
            known.group, known.finished = group_of(status), status.finished
        return True


def is_over(run: StoredRun, status: RunStatus) -> bool:
    """Whether no process works on the run, so that the last state of its pods is final."""
    if status.finished is not None or status.phase == Phase.ABORTED:
        return True
    return status.started is not None and not read_owner(run.directory).is_alive and not run.is_owned


def group_of(status: RunStatus | _Status) -> Group:
    if status.finished is not None:
        failed = status.phase == Phase.FAILED or status.exit_code == _TIMED_OUT
        return Group.FAILED if failed else Group.DONE
    if status.reason == SUSPENDED or status.phase == Phase.ABORTED:
        return Group.SUSPENDED
    return Group.WAITING if status.started is None else Group.ACTIVE


def stamp(run: StoredRun) -> tuple[int, int]:
    """Return what changes whenever something is written about a run."""
    return (modified_at(f"{run.directory}/{STATUS}"), size_of(f"{run.directory}/{JOURNAL}"))


def _known(path: Path) -> Known:
    try:
        record = _RECORD.decode(_content(f"{path}/{RECORD}"))
    except (OSError, msgspec.DecodeError, ValueError) as error:
        why = "run.json is missing" if isinstance(error, FileNotFoundError) else f"run.json cannot be read: {error}"
        why += f"; its files are in {path}: remove them if you do not need them"
        number = int(path.name) if path.name.isdecimal() else 0
        name, namespace = path.parent.name, path.parent.parent.name
        made = dt.datetime.fromtimestamp(modified_at(str(path)) / 1e9, dt.UTC)
        return Known(str(path), "", name, number, namespace, made, f"{name}:{number}".lower(), why)
    damaged = "" if record.format <= FORMAT else "written by a newer Pumice: upgrade Pumice to see more of it"
    spec = record.job.get("spec") if isinstance(record.job, dict) else None
    fields: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
    tasks, plugins = fields.get("tasks") or [], fields.get("plugins") or {}
    words = [f"{record.name}:{record.number}", record.namespace, record.note, record.file, str(fields.get("queue", ""))]
    words += [str(task.get("name", "")) for task in tasks if isinstance(task, dict)]
    words += [str(each) for each in plugins] if isinstance(plugins, dict) else []
    text = " ".join(words).lower()
    return Known(str(path), record.uid, record.name, record.number, record.namespace, record.created, text, damaged)


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, _LONGEST_RECORD))
    finally:
        os.close(descriptor)
