"""The contexts of a kubeconfig at a glance: which controller serves Volcano Jobs there, or why that is not known."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any, Final

import msgspec

from pumice.client.cluster.cluster_reading import LEASES_OF_CONTROLLERS
from pumice.client.cluster.connection import Connection, known_contexts
from pumice.client.values import Context
from pumice.diagnosis.cluster.objects import Lease
from pumice.engines.kubernetes.api.errors import AccessError, ApiError
from pumice.engines.kubernetes.api.resources import JOBS, LEASES
from pumice.engines.kubernetes.auth.access import find_kubeconfig
from pumice.model.units import read_time
from pumice.store.run_errors import InvalidOption, RunError

_SECONDS: Final = 2.0
_NONE: Final = "none"
_UNKNOWN: Final = "unknown"


async def cluster_contexts(kubeconfig: str, default: str) -> list[Context]:
    try:
        config = find_kubeconfig(kubeconfig or None)
    except AccessError as error:
        raise InvalidOption(str(error)) from error
    known = known_contexts(config)
    return list(await asyncio.gather(*(_context(name, kubeconfig, is_default=name == default) for name in known)))


async def _context(name: str, kubeconfig: str, *, is_default: bool) -> Context:
    """Ask one cluster, for a short time: an error is a fact about it."""
    try:
        connection = Connection.open(name, kubeconfig=kubeconfig)
    except RunError as error:
        return Context(name=name, is_default=is_default, problem=str(error))
    about: dict[str, Any] = {"server": connection.access.server, "namespace": connection.namespace}
    try:
        async with asyncio.timeout(_SECONDS):
            about["controller"] = await _controller(connection)
    except TimeoutError:
        about["problem"] = f"did not answer within {_SECONDS:g} s"
    except RunError as error:
        about["problem"] = error.problem.message.removeprefix(f"{name}: ")
    finally:
        await connection.close()
    return Context(name=name, is_default=is_default, **about)


async def _controller(connection: Connection) -> str:
    try:
        await connection.client.request("GET", JOBS.root)
    except ApiError as error:
        if error.not_found:
            return _NONE
        raise connection.explained(error) from error
    is_hidden = False
    for name, (namespace, lease) in LEASES_OF_CONTROLLERS.items():
        try:
            spec = msgspec.json.decode(await connection.client.get(LEASES, namespace, lease), type=Lease).spec
        except ApiError as error:
            is_hidden |= not error.not_found
            continue
        now, renewed = dt.datetime.now(dt.UTC), read_time(spec.renew_time)  # noqa: TID251 - as controllers write it
        held = dt.timedelta(seconds=4 * max(1, spec.lease_duration_seconds))
        if spec.holder_identity and renewed is not None and now - renewed < held:
            return name
    return _UNKNOWN if is_hidden else _NONE
