"""Creates, observes and removes the ssh Secret of a job without the permission to read Secrets.

The controller may create, patch and delete Secrets, but not get, list or watch them: what it cannot read it cannot
leak. A dry run of an empty patch shows whether the Secret exists and whose it is; its entries stay undecoded. Without a
watch, the Secrets of running jobs are checked again in turn, a few per second in total.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError, if_found
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.controller.failed_calls import ATTEMPTS, failed, failing, name_taken
from pumice.model import naming
from pumice.model.job import Job, Manifest
from pumice.model.objects import Once
from pumice.model.snapshot import JobKey
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.ports import EngineError

# Seconds between two checks of one Secret, and checks per second of all.
MIN_INTERVAL: Final = 10.0
CHECKS_PER_SECOND: Final = 5

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Checked:
    job: JobKey
    job_uid: str
    checked_at: float
    uid: str = ""  # of the Secret; empty if there is none
    is_foreign: bool = False  # owned by something else than the job


@dataclass(slots=True)
class SecretManager:
    client: Client
    enqueue: Callable[[JobKey], None]
    clock: Callable[[], float]  # monotonic
    _checked: dict[tuple[str, str], _Checked] = field(default_factory=dict)  # by namespace and name
    _watched: dict[tuple[str, str], None] = field(default_factory=dict)  # to check again, in this order

    async def observe(self, job: JobKey, job_uid: str, name: str, *, watch: bool) -> Manifest | None:
        """Return the Secret without its entries, or None. With `watch`, it is checked again and again.

        Raises EngineError.
        """
        key = (job.namespace, name)
        checked = self._checked.get(key)
        if checked is None or checked.job_uid != job_uid:
            with failing("look at", resources.SECRETS, name):
                checked = self._checked[key] = await self._check(job, job_uid, name)
        if watch:
            self._watched.setdefault(key, None)
        else:
            self._watched.pop(key, None)
        return {"kind": "Secret", "metadata": {"name": name}} if checked.uid and not checked.is_foreign else None

    async def ensure(self, job: Job, owned: Once) -> None:
        """Create the Secret if it does not exist. A rewrite would make kubelet empty the mounts of running pods."""
        name, key = owned.manifest["metadata"]["name"], JobKey(job.namespace, job.name)
        self._check_is_own(key, name)
        try:
            # Generating an RSA key takes a tenth of a second, which would delay other jobs.
            body = msgspec.json.encode(await asyncio.to_thread(owned.created_with, make_key_pair))
            raw = await self.client.create(resources.SECRETS, job.namespace, body=body, attempts=ATTEMPTS)
        except ApiError as error:
            self.forget(key)
            if error.already_exists and await self.observe(key, job.uid, name, watch=True) is not None:
                # A create whose response was lost.
                return
            self._check_is_own(key, name)
            shown: object = error
            if error.is_invalid or error.status == HTTPStatus.BAD_REQUEST:
                # The message may quote the Secret, and events and logs are public.
                shown = f"the API server refused it as {error.reason or error.status}"
            raise failed("create", resources.SECRETS, name, shown) from error
        self._checked[(job.namespace, name)] = _Checked(key, job.uid, self.clock(), read_metadata(raw).uid)

    async def remove(self, job: Job, name: str) -> None:
        """Delete the Secret that was seen last: a newer one of that name may be foreign."""
        key, checked = JobKey(job.namespace, job.name), self._checked.get((job.namespace, name))
        try:
            if checked is None or not checked.uid:
                raise EngineError("FailedDelete", f"could not delete Secret {name}: its uid is not known yet")
            with failing("delete", resources.SECRETS, name), if_found():
                await self.client.delete(resources.SECRETS, job.namespace, name, uid=checked.uid, attempts=ATTEMPTS)
        except EngineError:
            # The next pass observes it first.
            self.forget(key)
            raise
        self._checked[(job.namespace, name)] = _Checked(key, job.uid, self.clock())

    def _check_is_own(self, job: JobKey, name: str) -> None:
        checked = self._checked.get((job.namespace, name))
        if checked is not None and checked.is_foreign:
            # It may be removed at any time, and Secrets are not watched: check again in the next pass.
            self.forget(job)
            raise name_taken(resources.SECRETS.kind, name)

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
            if (bool(after.uid), after.is_foreign) != (bool(before.uid), before.is_foreign):
                self.enqueue(before.job)

    async def _check(self, job: JobKey, job_uid: str, name: str) -> _Checked:
        raw = await observed_secret(self.client, job.namespace, name, attempts=ATTEMPTS)
        if raw is None:
            return _Checked(job, job_uid, self.clock())
        found = read_metadata(raw)
        return _Checked(job, job_uid, self.clock(), found.uid, is_foreign=not found.is_owned_by(job_uid))


async def observed_secret(client: Client, namespace: str, name: str, *, attempts: int = 1) -> bytes | None:
    """Return a Secret without the right to read it; None if it does not exist. Raises ApiError."""
    try:
        return await client.merge_patch(resources.SECRETS, namespace, name, body=b"{}", dry_run=True, attempts=attempts)
    except ApiError as error:
        if not error.not_found:
            raise
        return None
