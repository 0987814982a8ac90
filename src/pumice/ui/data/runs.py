"""All runs in the order of the list, those that were removed while the page was open, and one run by its uid."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pumice.client.backend import Backend, RunRef
from pumice.client.observer import ListedRun, Observed, Observer
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.logs.numbered_log import NumberedLog
from pumice.store.run_errors import InvalidOption, NoSuchRun
from pumice.ui.values import GROUPS, Group

_MOST_GONE: Final = 1000
_RANKS: Final = {Group.ACTIVE: 0, Group.WAITING: 1, Group.SUSPENDED: 1}
T = TypeVar("T")


class NoSuchJobError(LookupError):
    """No run has this uid. `gone` has the name of a run that was removed while the page was open, and when."""

    def __init__(self, uid: str, gone: tuple[str, dt.datetime] | None = None) -> None:
        super().__init__(f"{uid}: no run has this uid" if gone is None else f"{gone[0]} was deleted, with its record")
        self.gone = gone


@dataclass(slots=True)
class RunList:
    backend: Backend
    observer: Observer
    # Runs that were removed while the page was open, by uid: NAME:N, and when it was noticed.
    gone: RecentlyUsed[str, tuple[str, dt.datetime]] = field(default_factory=lambda: RecentlyUsed(_MOST_GONE))
    _read: Sequence[ListedRun] = ()
    _sorted: Sequence[ListedRun] = ()
    _refs: Mapping[str, RunRef] = field(default_factory=dict)  # of those that can be read, by uid

    async def read(self) -> Sequence[ListedRun]:
        """Return all runs, in the order of the list: the same object until a run has changed."""
        runs = await self.observer.runs()
        if runs is not self._read:
            refs = {each.ref.uid: each.ref for each in runs if not each.damaged}
            for uid, ref in self._refs.items():
                if uid not in refs:
                    self.gone.keep(uid, (str(ref), self.backend.now()))
            self._read, self._sorted, self._refs = runs, sorted(runs, key=_order), refs
        return self._sorted

    async def find(self, uid: str) -> RunRef:
        """Return the run of a uid, or of a name such as `ddp:3`. Raises NoSuchJobError, StoreError."""
        if uid not in self._refs:
            await self.read()
        if uid in self._refs:
            return self._refs[uid]
        try:
            return await self.backend.find(uid)
        except (NoSuchRun, InvalidOption) as error:
            raise NoSuchJobError(uid, self.gone.get(uid)) from error

    async def observe(self, uid: str) -> Observed:
        """Return a run of which the page shows more than a row. Raises NoSuchJobError, StoreError."""
        return await self._ask(self.observer.observe, uid)

    async def log(self, uid: str) -> NumberedLog:
        """Return the log of a run. Raises NoSuchJobError, StoreError."""
        return await self._ask(self.observer.log, uid)

    async def _ask(self, question: Callable[[RunRef], Awaitable[T]], uid: str) -> T:
        ref = await self.find(uid)
        try:
            return await question(ref)
        except NoSuchRun as error:
            self.observer.forget()
            await self.read()
            raise NoSuchJobError(uid, self.gone.get(ref.uid)) from error


def key_of(run: ListedRun) -> str:
    """Return what names a run in the list; one whose record cannot be read has no uid."""
    return run.ref.uid or f"{run.ref.namespace}/{run.ref}"


def _order(run: ListedRun) -> tuple[int, float]:
    """Active runs first, then those that wait, then those that ended, the newest first."""
    return (_RANKS.get(GROUPS[run.outcome], 2), -(run.finished or run.created).timestamp())
