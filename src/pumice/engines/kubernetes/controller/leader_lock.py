"""The lock of a leader: a Lease of one name in each of several namespaces, all of which it must hold.

Controllers of other versions, or with another `--lease-namespace`, hold Leases in other namespaces; any two have one
namespace in common. A controller that may neither have nor read a Lease in the first namespace begins late, so that
others notice its Leases in the others before.

A controller for the whole cluster takes precedence over those for single namespaces, which give up their Leases; it
waits until they have. Each side first writes its own Lease and then reads those of the other, so that one of two that
start at the same moment sees the other.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.controller.lease import LeaseLock, Observed, Taken

_log = logging.getLogger(__name__)
_JITTER: Final = 0.2
_RANDOM: Final = random.Random()  # noqa: S311 - only keeps two candidates out of step


@dataclass(slots=True)
class LeaderLock:
    leases: Sequence[LeaseLock]
    # The Leases for the whole cluster, of a lock for one namespace: while one of them is held, this lock stays free.
    superseding: Sequence[LeaseLock] = ()
    is_leader: bool = False
    failure: str = ""  # why it cannot be acquired, unless another controller holds it
    _blocker: tuple[str, str] = ("", "")  # another holder, and the Lease that it holds
    _renewed: float = 0.0  # when the last successful renewal began
    _namespaced: dict[str, Observed] = field(default_factory=dict)  # Leases of controllers for single namespaces
    _taken_at: float | None = None  # since when the Leases have been held without a break
    _skipped: set[str] = field(default_factory=set)  # what has been logged

    @property
    def _monotonic(self) -> Callable[[], float]:
        return self.leases[0].monotonic

    async def acquire(self) -> None:
        """Return when this process is the leader. Until then it holds no Lease for longer than an attempt."""
        durations = self.leases[0].durations
        logged = ""
        while True:
            began = self._monotonic()
            try:
                is_acquired = await self._try()
                self.failure = ""
                if is_acquired:
                    self.is_leader, self._renewed = True, began
                    return
                holder, name = self._blocker
                if holder + name != logged:
                    logged = holder + name
                    _log.info("waiting: %s holds Lease %s", holder, name)
            except ApiError as error:
                await self.release()
                hint = "" if error.is_transient else "; --lease-namespace chooses another namespace for it"
                self.failure = f"could not acquire Lease {self.leases[0]}: {error}{hint}"
                if self.failure != logged:
                    logged = self.failure
                    _log.warning("%s", logged)
            await asyncio.sleep(durations.retry * _RANDOM.uniform(1 - _JITTER, 1 + _JITTER) / 2)

    async def hold(self) -> None:
        """Renew the Leases; return when one of them is lost."""
        durations = self.leases[0].durations
        while True:
            await asyncio.sleep(durations.retry)
            began = self._monotonic()
            try:
                async with asyncio.timeout(max(0.1, self._renewed + durations.renew - began)):
                    if not await self._take() or await self._is_superseded():
                        holder, name = self._blocker
                        _log.error("Lease %s was taken by %s", name, holder)
                        break
                # Others count from the moment when the server stored the write, which may be long before its response.
                self._renewed = began
            except (ApiError, TimeoutError) as error:
                _log.warning("could not renew Lease %s: %s", self.leases[0], str(error) or "no response")
                if self._monotonic() - self._renewed >= durations.renew:
                    _log.error("Lease %s was not renewed in time", self.leases[0])
                    break
        self.is_leader = False

    async def release(self) -> None:
        """Give all Leases up, so that others need not wait until they expire."""
        self.is_leader, self._taken_at = False, None
        await asyncio.gather(*(lease.release() for lease in self.leases))

    async def _try(self) -> bool:
        """Acquire or renew every Lease, unless another controller has one of them."""
        await asyncio.gather(*(lease.observe() for lease in self.leases))
        if self._is_held_by_another(self.leases) or await self._is_superseded():
            await self.release()
            return False
        if not await self._take() or await self._is_superseded() or await self._is_missed():
            await self.release()
            return False
        return self._is_seen_by_others() and (bool(self.superseding) or not await self._has_predecessors())

    async def _is_missed(self) -> bool:
        """Whether another controller holds the first Lease, read once more where this one cannot have it."""
        first = self.leases[0]
        if not first.is_held:
            await first.observe()
        return self._is_held_by_another([first])

    def _is_seen_by_others(self) -> bool:
        """Whether every other controller has seen a Lease of this one: at its start, or at a renewal since then."""
        first, now = self.leases[0], self._monotonic()
        if self._taken_at is None:
            self._taken_at = now
        self._blocker = ("perhaps another controller", str(first))
        return first.is_readable or now - self._taken_at >= first.durations.lease

    async def _take(self) -> bool:
        """Acquire or renew every Lease, always in the same order. Raises ApiError if no namespace can have one."""
        for lease in self.leases:
            match await lease.take():
                case Taken.NO:
                    # Without a holder, another candidate was faster.
                    self._blocker = (lease.holder or "another controller", str(lease))
                    return False
                case Taken.SKIPPED:
                    self._log_skipped(lease)
                case Taken.YES:
                    self._skipped.discard(str(lease))
        if any(lease.is_held for lease in self.leases):
            return True
        if self.is_leader:
            self._blocker = ("nobody: its namespace is gone", str(self.leases[-1]))
            return False
        raise next(lease.refusal for lease in self.leases if lease.refusal is not None)

    def _is_held_by_another(self, leases: Sequence[LeaseLock]) -> bool:
        for lease in leases:
            if lease.holder:
                self._blocker = (lease.holder, str(lease))
                return True
        return False

    async def _is_superseded(self) -> bool:
        for lease in self.superseding:
            await lease.observe()
            if not lease.is_readable:
                self._log_skipped(lease)
        return self._is_held_by_another(self.superseding)

    async def _has_predecessors(self) -> bool:
        """Whether controllers for single namespaces still work; they notice this lock at their next renewal."""
        now = self._monotonic()
        for lease in self.leases:
            if not lease.is_held:
                continue
            try:
                async for items, _ in lease.client.list_pages(resources.LEASES, lease.namespace):
                    for raw in items:
                        self._observe_namespaced(lease, raw, now)
            except ApiError as error:
                if not error.is_forbidden:
                    raise
                # Not known: as if there were one, until its Lease must have expired.
                name = f"{lease}-*"
                self._namespaced.setdefault(name, Observed.unknown(name, now))
        for key, observed in self._namespaced.items():
            holder = observed.holder(now, self.leases[0].durations.lease)
            if holder not in ("", self.leases[0].identity):
                self._blocker = (holder, key)
                return True
        self._namespaced.clear()
        return False

    def _observe_namespaced(self, lease: LeaseLock, raw: msgspec.Raw, now: float) -> None:
        found = Observed().updated(raw, now)
        if found.name.startswith(f"{lease.name}-"):
            key = f"{lease.namespace}/{found.name}"
            self._namespaced[key] = self._namespaced.get(key, found).updated(raw, now)

    def _log_skipped(self, lease: LeaseLock) -> None:
        if str(lease) not in self._skipped and lease.refusal is not None:
            self._skipped.add(str(lease))
            log = _log.warning if lease.refusal.is_forbidden else _log.info
            log("going on without Lease %s: %s", lease, lease.refusal)
