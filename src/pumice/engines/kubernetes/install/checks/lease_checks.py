"""Checks the Leases of controllers: which controllers lead, and whether two serve the same jobs."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.checks.check_result import CheckResult, Target, missing, ok
from pumice.model.timestamps import read_time

# A Lease that was not renewed for longer has no holder any more.
STALE: Final = dt.timedelta(seconds=60)
# A leader renews its Leases every two seconds.
RENEWAL_SECONDS: Final = 5.0


class HeldLease(Struct, frozen=True):
    namespace: str
    name: str
    holder: str
    renewed: str

    @property
    def scope(self) -> str:
        """The namespace whose jobs the holder serves; empty: those of all namespaces."""
        return self.name.removeprefix(names.LEASE).removeprefix("-")


async def leaders(client: Client, target: Target, now: dt.datetime) -> CheckResult | None:
    """Return the controllers that hold a Lease, wherever it is; None if there is none."""
    subject = "controller"
    leases = await _held_leases(client, target, now)
    if conflicting(leases):
        # One of them may have ended a few seconds ago, and does not renew its Leases any more.
        await asyncio.sleep(RENEWAL_SECONDS)
        later = await _held_leases(client, target, now)
        leases = [one for one in later if one not in leases] or later
    if not leases:
        return None
    found = "; ".join(_described(leases))
    if conflicting(leases):
        hint = (
            "end all but one: stop a controller outside of the cluster, or "
            f"kubectl -n {target.namespace} scale deployment {names.CONTROLLER} --replicas=0"
        )
        return missing(subject, f"several controllers serve the same jobs: {found}", hint)
    return ok(subject, found)


def conflicting(leases: Sequence[HeldLease]) -> bool:
    """Whether two holders serve the jobs of one namespace."""
    return any(
        one.holder != other.holder and (one.scope == other.scope or "" in (one.scope, other.scope))
        for one in leases
        for other in leases
    )


def _described(leases: Iterable[HeldLease]) -> Iterator[str]:
    held: dict[tuple[str, str], list[str]] = {}
    for lease in leases:
        held.setdefault((lease.scope, lease.holder), []).append(f"{lease.namespace}/{lease.name}")
    for (scope, holder), where in sorted(held.items()):
        yield f"{holder} leads{f' namespace {scope}' if scope else ''} (Lease {', '.join(where)})"


async def _held_leases(client: Client, target: Target, now: dt.datetime) -> list[HeldLease]:
    try:
        found = [lease async for lease in _leases(client, None)]
    except ApiError as error:
        if not error.is_forbidden:
            raise
        where = dict.fromkeys((names.LEASE_NAMESPACE, names.NAMESPACE, target.namespace))
        found = [lease for namespace in where async for lease in _leases(client, namespace)]
    return [held for lease in found if (held := _held(lease, now)) is not None]


async def _leases(client: Client, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
    async for items, _ in client.list_pages(resources.LEASES, namespace):
        for item in items:
            yield msgspec.json.decode(item)


def _held(lease: Mapping[str, Any], now: dt.datetime) -> HeldLease | None:
    meta, spec = lease["metadata"], lease.get("spec") or {}
    renewed = read_time(spec.get("renewTime"))
    if renewed is None or now - renewed >= STALE or not spec.get("holderIdentity"):
        return None
    if meta["name"] != names.LEASE and not meta["name"].startswith(f"{names.LEASE}-"):
        return None
    return HeldLease(meta["namespace"], meta["name"], str(spec["holderIdentity"]), str(spec["renewTime"]))
