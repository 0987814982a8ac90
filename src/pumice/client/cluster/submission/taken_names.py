"""A Job that has the name of a new one: what it is, whether it may be replaced, and how it is deleted."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pumice.client.backend import RunRef
from pumice.client.cluster.control.removal import delete_job, job_pods, owned_claims
from pumice.client.cluster.job_facts import JobFacts, read_facts
from pumice.client.cluster.journal_entries import summary
from pumice.client.cluster.live_objects import patiently
from pumice.client.values import Status
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model import keys
from pumice.model.problem import Option
from pumice.model.text import plural
from pumice.model.units import elapsed_text
from pumice.store.options import ClusterOptions
from pumice.store.run_errors import ConnectionFailed, Denied, NameTakenError, NoSuchRun, RunError

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_POLL: Final = 0.3
_SILENCE: Final = 1.0  # seconds after which the user learns what is waited for
_LONGEST: Final = 600.0  # the pods of a lost node never end
_NUMBER: Final = re.compile(r"(.*?)(?:-(\d{1,6}))?\Z", re.DOTALL)


class Taken(Struct, frozen=True):
    """A Job that has the name."""

    facts: JobFacts
    status: Status
    claims: Sequence[str]  # that it owns
    user: str  # who submitted it, if it says so


async def find_taken(connection: Connection, namespace: str, name: str) -> Taken | None:
    """Return the Job of this name; None if there is none."""
    raw = await connection.get(JOBS, namespace, name)
    if raw is None:
        return None
    facts = await read_facts(connection, raw)
    user = (facts.manifest["metadata"].get("annotations") or {}).get(keys.SUBMITTED_BY, "")
    return Taken(facts, summary(facts, connection.name), await owned_claims(connection, facts.job), str(user))


async def check_taken(
    connection: Connection, taken: Taken, options: ClusterOptions, user: str, now: dt.datetime
) -> None:
    """Raises NameTakenError, with a free name, unless the options say that the Job may be replaced."""
    status, name, where = taken.status, taken.status.name, f"{connection.name}/{taken.status.namespace}"
    other = taken.user if taken.user not in ("", user) else ""
    by = f", submitted by {'you' if taken.user == user else taken.user}" if taken.user else ""
    if status.is_finished:
        ended = elapsed_text((now - (status.finished or status.created)).total_seconds())
        may = options.replace and options.replaced_uid in ("", status.uid)
        lacking = {"replace": not may}
        lacking["delete-claims"] = bool(taken.claims) and not (may and options.delete_claims)
        lacking["yes"] = bool(other) and not (may and options.yes)
        needed = [Option(flag, True) for flag, lacks in lacking.items() if lacks]
        if not needed:
            return
        message = f"{name}: a Job of this name is on {where}; it ended {ended} ago ({status.outcome}){by}"
        pods = f"its {plural(len(taken.facts.pods), 'pod')} and the logs" if taken.facts.pods else "no pods"
        data = f", and the data of {', '.join(taken.claims)}" if taken.claims else ""
        error = NameTakenError(f"{message}; replacing it deletes {pods}{data}")
        error.needed, error.uid = needed, status.uid
    else:
        since = elapsed_text((now - (status.started or status.created)).total_seconds())
        state = f"is {status.outcome}".lower()
        error = NameTakenError(f"{name}: a Job of this name {state} on {where} since {since}{by}")
    with suppress(RunError):
        error.free = await free_name(connection, status.namespace, name)
    raise error


async def free_name(connection: Connection, namespace: str, name: str) -> str:
    """Return a name like this one that no Job has: `train-2`."""
    match = _NUMBER.fullmatch(name)
    base, number = (name, 1) if match is None or match[2] is None else (match[1], int(match[2]))
    taken = {read_metadata(raw).name for raw in await connection.all(JOBS, namespace)}
    return next(each for n in range(number + 1, number + len(taken) + 2) if (each := f"{base}-{n}") not in taken)


async def delete_taken(connection: Connection, taken: Taken, say: Callable[[str], None]) -> None:
    """Delete a Job with its pods, and wait until they are gone. Raises RunError."""
    job, said, since = taken.facts.job, "", time.monotonic()
    run = RunRef(job.name, 0, job.namespace, job.uid)
    with suppress(NoSuchRun):
        # Another Job may have the name by now.
        await patiently(connection, lambda: delete_job(connection, run, "Foreground"))
    while left := await patiently(connection, lambda: _what_is_left(connection, run)):
        passed = time.monotonic() - since
        if passed > _LONGEST:
            message = f"{job.name}: is deleted, but {left} not gone after {passed / 60:.0f} minutes"
            raise ConnectionFailed(f"{message}, so the new Job is not created", "submit it again once that is gone")
        if passed > _SILENCE and left != said:
            said = left
            say(f"{job.name}: waiting for the end of the Job that is replaced: {left} not gone")
        await asyncio.sleep(_POLL)


async def _what_is_left(connection: Connection, run: RunRef) -> str:
    """Return what of a deleted Job is still there, in words. Raises RunError."""
    with suppress(Denied):
        if pods := await job_pods(connection, run):
            return "1 pod is" if len(pods) == 1 else f"{len(pods)} pods are"
    raw = await connection.get(JOBS, run.namespace, run.name)
    return "what it owns is" if raw is not None and read_metadata(raw).uid == run.uid else ""
