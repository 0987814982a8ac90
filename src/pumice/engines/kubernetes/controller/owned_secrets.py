"""Observes the ssh Secret of a job without the permission to read Secrets.

The controller may create, patch and delete Secrets, but not get, list or watch them: what it cannot read it cannot
leak. A dry run of an empty patch shows whether the Secret exists and whose it is; its entries stay undecoded. Without a
watch, the Secrets of running jobs are checked again in turn, a few per second in total.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.model import naming
from pumice.model.job import Manifest
from pumice.model.snapshot import JobKey

# Seconds between two checks of one Secret, and checks per second of all.
MIN_INTERVAL: Final = 10.0
CHECKS_PER_SECOND: Final = 5
_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Checked:
    job: JobKey
    job_uid: str
    exists: bool
    is_foreign: bool  # owned by something else than the job
    checked_at: float
    uid: str = ""


@dataclass(slots=True)
class SecretManager:
    client: Client
    enqueue: Callable[[JobKey], None]
    clock: Callable[[], float]  # monotonic
    _checked: dict[tuple[str, str], _Checked] = field(default_factory=dict)  # by namespace and name
    _watched: dict[tuple[str, str], None] = field(default_factory=dict)  # to check again, in this order

    async def observe(self, job: JobKey, job_uid: str, name: str, *, watch: bool) -> Manifest | None:
        """Return the Secret without its entries, or None. With `watch`, it is checked again and again."""
        key = (job.namespace, name)
        checked = self._checked.get(key)
        if checked is None or checked.job_uid != job_uid:
            checked = self._checked[key] = await self._check(job, job_uid, name)
        if watch:
            self._watched.setdefault(key, None)
        else:
            self._watched.pop(key, None)
        if not checked.exists or checked.is_foreign:
            return None
        return {"kind": "Secret", "metadata": {"name": name}}

    def put(self, job: JobKey, job_uid: str, name: str, uid: str) -> None:
        """Store the result of an own write; without a uid, the Secret was deleted."""
        checked = _Checked(job, job_uid, exists=bool(uid), is_foreign=False, checked_at=self.clock(), uid=uid)
        self._checked[(job.namespace, name)] = checked

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the uid of the Secret last seen: a newer one of that name may be foreign."""
        checked = self._checked.get((namespace, name))
        return checked.uid or None if checked is not None else None

    def is_foreign(self, namespace: str, name: str) -> bool:
        checked = self._checked.get((namespace, name))
        return checked is not None and checked.is_foreign

    def forget(self, job: JobKey) -> None:
        key = (job.namespace, naming.ssh_secret(job.name))
        self._checked.pop(key, None)
        self._watched.pop(key, None)

    def clear(self, namespace: str) -> None:
        """Forget the Secrets of a namespace, or all of them: another controller may have changed them."""
        for key in [key for key in self._checked if not namespace or key[0] == namespace]:
            self._checked.pop(key)
            self._watched.pop(key, None)

    async def run(self) -> None:
        """Check watched Secrets until cancelled."""
        while True:
            await asyncio.sleep(1 / CHECKS_PER_SECOND)
            key = next(iter(self._watched), None)
            checked = self._checked.get(key) if key is not None else None
            if key is not None and checked is not None and self.clock() - checked.checked_at >= MIN_INTERVAL:
                self._watched[key] = self._watched.pop(key)
                await self._check_again(key, checked)

    async def _check_again(self, key: tuple[str, str], before: _Checked) -> None:
        try:
            after = await self._check(before.job, before.job_uid, key[1])
        except ApiError as error:
            _log.info("could not check Secret %s/%s: %s", *key, error)
            before.checked_at = self.clock()
            return
        if self._checked.get(key) is before:
            self._checked[key] = after
            if (after.exists, after.is_foreign) != (before.exists, before.is_foreign):
                self.enqueue(before.job)

    async def _check(self, job: JobKey, job_uid: str, name: str) -> _Checked:
        raw = await observed_secret(self.client, job.namespace, name, attempts=_ATTEMPTS)
        if raw is None:
            return _Checked(job, job_uid, exists=False, is_foreign=False, checked_at=self.clock())
        found = read_metadata(raw)
        is_own = found.is_owned_by(job_uid)
        return _Checked(job, job_uid, exists=True, is_foreign=not is_own, checked_at=self.clock(), uid=found.uid)


async def observed_secret(client: Client, namespace: str, name: str, *, attempts: int = 1) -> bytes | None:
    """Return a Secret without the right to read it; None if it does not exist. Raises ApiError."""
    try:
        return await client.merge_patch(resources.SECRETS, namespace, name, body=b"{}", dry_run=True, attempts=attempts)
    except ApiError as error:
        if not error.not_found:
            raise
        return None
