"""Removes Jobs from a cluster with what they own, never another Job of the same name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from pumice.client.backend import RemoveRun, RunRef
from pumice.client.cluster.connection import Connection, gone
from pumice.client.cluster.job_facts import ClusterPod, in_order, read_current, read_pod
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import AnyObject
from pumice.engines.kubernetes.api.resources import CLAIMS, JOBS, PODS
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.problem import Command, Option
from pumice.model.text import some
from pumice.reconcile.phases import FINAL
from pumice.store.run_errors import Denied, InvalidOption, WrongState

_POD_SECONDS: Final = 60.0  # for which the end of the pods is waited for
_SILENCE: Final = 3.0
_POLL: Final = 0.3


class _Claim(AnyObject, frozen=True):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        size = ((self.spec.get("resources") or {}).get("requests") or {}).get("storage")
        return self.metadata.name + (f" ({size})" if size else "")


async def check_removal(connection: Connection, run: RunRef, change: RemoveRun) -> tuple[Job, list[str]]:
    """Return the Job and the claims that go with it.

    Raises WrongState for one that has not finished, InvalidOption for one with claims, each unless the change says so.
    """
    job = await read_current(connection, run)
    if job.status.state.phase not in FINAL and not change.force:
        what = f"is {(job.status.state.phase or 'new').lower()}"
        raise WrongState(f"{run} {what}", (Command("stop", str(run)), ", or ", Option("force", True)))
    claims = await owned_claims(connection, job)
    if claims and not change.claims:
        message = f"{run}: its claims go with it, and what is stored in them: {', '.join(claims)}"
        raise InvalidOption(message, (Option("delete-claims", True), " removes them"))
    return job, claims


async def owned_claims(connection: Connection, job: Job) -> list[str]:
    """Return the claims that go when the Job goes, with their sizes."""
    try:
        found = [msgspec.json.decode(raw, type=_Claim) for raw in await connection.all(CLAIMS, job.namespace)]
    except Denied:
        volumes = [each for each in job.spec.volumes if each.volume_claim is not None]
        return [each.volume_claim_name or f"the claim at {each.mount_path}" for each in volumes]
    return [str(each) for each in found if each.metadata.is_owned_by(job.uid)]


async def job_pods(connection: Connection, run: RunRef, job: Job | None = None) -> list[ClusterPod]:
    """Return the pods of a Job, without those of another one of the same name."""
    found = await connection.all(PODS, run.namespace, labels=f"{keys.JOB_NAME}={run.name}")
    pods = [pod for raw in found if (pod := read_pod(raw, run.uid)) is not None]
    return pods if job is None else in_order(job, pods)


async def remove(connection: Connection, run: RunRef, change: RemoveRun, tell: Callable[[str], None]) -> Sequence[str]:
    """Delete a Job, and wait for the end of its pods. Return what went with it. Raises RunError."""
    job, claims = await check_removal(connection, run, change)
    try:
        pods: list[ClusterPod] | None = await job_pods(connection, run, job)
    except Denied:
        pods = None
    await delete_job(connection, run)
    if pods is None:
        return ["its pods and their logs", *claims]
    left = await pods_ended(connection, run, tell) if pods else []
    names = some([each.observed.short_name for each in pods])
    what = [f"the logs of {names}"] if pods else []
    if left:
        nodes = sorted({each.observed.node for each in left} - {""})
        where = f" on {', '.join(nodes)}" if nodes else ""
        tell(f"{run}: still ending: {some([each.observed.short_name for each in left])}{where}")
    return [*what, *claims]


async def delete_job(connection: Connection, run: RunRef, propagation: str = "Background") -> None:
    """Delete the Job with this uid; what it owns follows. Raises NoSuchRun if it was deleted or replaced."""
    try:
        await connection.client.delete(JOBS, run.namespace, run.name, uid=run.uid, propagation=propagation, attempts=4)
    except ApiError as error:
        if error.not_found and error.reason == "NotFound":
            # A deletion whose answer was lost is repeated.
            return
        if error.is_conflict:
            raise gone(str(run), is_replaced=True) from error
        raise connection.explained(error) from error


async def pods_ended(
    connection: Connection, run: RunRef, tell: Callable[[str], None], within: float = _POD_SECONDS
) -> list[ClusterPod]:
    """Wait until the pods of a Job are gone; return those that are left after a while."""
    began, told = time.monotonic(), False
    while pods := await job_pods(connection, run):
        passed = time.monotonic() - began
        if passed > within:
            break
        if passed > _SILENCE and not told:
            told = True
            tell(f"{run}: waiting for the end of {len(pods)} pods")
        await asyncio.sleep(_POLL)
    return pods


async def end_pods(connection: Connection, run: RunRef, grace: int) -> None:
    """Shorten the time that the pods of a Job have to end; 0 also removes those of a lost node."""
    for pod in await job_pods(connection, run):
        if pod.observed.is_finished and not pod.observed.is_deleting:
            continue
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.observed.uid}}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options})
        try:
            await connection.client.request("DELETE", PODS.path(pod.namespace, pod.name), body=body, attempts=3)
        except ApiError as error:
            if not error.not_found and not error.is_conflict:
                raise connection.explained(error) from error
