"""Whether a job's Secret is there, without the right to read Secrets.

The controller may make, patch and remove Secrets, but neither get nor list nor watch them: what it cannot read it
cannot give away. A patch that changes nothing, tried without being carried out, tells whether the Secret exists, and
its answer has the one entry that is put right when somebody edits it. Since nobody tells when a Secret goes, those of
running jobs are looked at again in turn, a few a second in all, however many there are.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.model import naming
from pumice.model.job import Manifest
from pumice.model.snapshot import JobKey

# How often one Secret is looked at, at most, and how many a second in all.
SHORTEST_INTERVAL: Final = 10.0
CHECKS_PER_SECOND: Final = 5
_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


class _Entries(msgspec.Struct, frozen=True):
    config: str | None = None


class _Owner(msgspec.Struct, frozen=True):
    uid: str = ""


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    owner_references: list[_Owner] = []


class _Secret(msgspec.Struct, frozen=True):
    metadata: _Meta
    data: _Entries = _Entries()


@dataclass(slots=True)
class _Known:
    job: JobKey
    uid: str  # of the job
    entries: dict[str, str] | None  # None: there is no such Secret
    foreign: bool
    checked: float
    own_uid: str = ""  # of the Secret itself


@dataclass(slots=True)
class SecretManager:
    client: Client
    enqueue: Callable[[JobKey], None]
    clock: Callable[[], float]  # monotonic
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict)
    _line: dict[tuple[str, str], None] = field(default_factory=dict)  # to be looked at again, in this order

    async def look(self, job: JobKey, uid: str, name: str, *, watched: bool) -> Manifest | None:
        """The Secret as far as it can be known, or None. `watched` asks for it to be looked at again and again."""
        place = (job.namespace, name)
        known = self._known.get(place)
        if known is None or known.uid != uid:
            known = self._known[place] = await self._checked(job, uid, name)
        if watched:
            self._line.setdefault(place, None)
        else:
            self._line.pop(place, None)
        if known.entries is None or known.foreign:
            return None
        return {"kind": "Secret", "metadata": {"name": name}, "stringData": known.entries}

    def put(self, job: JobKey, uid: str, name: str, entries: dict[str, str] | None, own_uid: str = "") -> None:
        """Take note of what was just written (None: removed)."""
        known = _Known(job, uid, entries, foreign=False, checked=self.clock(), own_uid=own_uid)
        self._known[(job.namespace, name)] = known

    def own_uid(self, namespace: str, name: str) -> str | None:
        """Of the Secret that was last seen: a newer one of that name may be somebody else's."""
        known = self._known.get((namespace, name))
        return known.own_uid or None if known is not None else None

    def is_foreign(self, namespace: str, name: str) -> bool:
        """Whether the Secret that was last seen there belongs to somebody else."""
        known = self._known.get((namespace, name))
        return known is not None and known.entries is not None and known.foreign

    def forget(self, job: JobKey) -> None:
        place = (job.namespace, naming.ssh_secret(job.name))
        self._known.pop(place, None)
        self._line.pop(place, None)

    def start_over(self, namespace: str) -> None:
        """Somebody else was at work there meanwhile; without a name, everywhere."""
        for place in [place for place in self._known if not namespace or place[0] == namespace]:
            self._known.pop(place)
            self._line.pop(place, None)

    async def run(self) -> None:
        """Look at what may have gone, until it is cancelled."""
        while True:
            await asyncio.sleep(1 / CHECKS_PER_SECOND)
            place = next(iter(self._line), None)
            known = self._known.get(place) if place is not None else None
            if place is None or known is None or self.clock() - known.checked < SHORTEST_INTERVAL:
                continue
            self._line[place] = self._line.pop(place)
            await self._check_again(place, known)

    async def _check_again(self, place: tuple[str, str], known: _Known) -> None:
        try:
            now = await self._checked(known.job, known.uid, place[1])
        except ApiError as error:
            _log.info("Secret %s/%s could not be looked at: %s", *place, error)
            known.checked = self.clock()
            return
        if self._known.get(place) is known:
            self._known[place] = now
            if (now.entries, now.foreign) != (known.entries, known.foreign):
                self.enqueue(known.job)

    async def _checked(self, job: JobKey, uid: str, name: str) -> _Known:
        try:
            raw = await self.client.merge_patch(
                resources.SECRETS, job.namespace, name, body=b"{}", dry_run=True, attempts=_ATTEMPTS
            )
        except ApiError as error:
            if not error.not_found:
                raise
            return _Known(job, uid, None, foreign=False, checked=self.clock())
        secret = msgspec.json.decode(raw, type=_Secret)
        mine = any(owner.uid == uid for owner in secret.metadata.owner_references)
        own_uid = secret.metadata.uid
        return _Known(job, uid, _entries(secret.data), foreign=not mine, checked=self.clock(), own_uid=own_uid)


def _entries(data: _Entries) -> dict[str, str]:
    """The entry that everybody may know; the keys stay undecoded."""
    try:
        return {"config": base64.b64decode(data.config or "").decode()}
    except (binascii.Error, UnicodeDecodeError):
        return {"config": ""}
