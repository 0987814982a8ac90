"""The Job that a run is, as the API server has it now: not one that replaced it."""

from __future__ import annotations

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection, gone
from pumice.client.cluster.job_facts import read_job
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model.job import Job, Manifest


async def read_current(connection: Connection, run: RunRef) -> Job:
    """Raises NoSuchRun if it was deleted or replaced, ApiError for errors that may pass, RunError for the others."""
    return (await read_current_manifest(connection, run))[1]


async def read_current_manifest(connection: Connection, run: RunRef) -> tuple[Manifest, Job]:
    try:
        raw = await connection.client.get(JOBS, run.namespace, run.name)
    except ApiError as error:
        if error.is_transient:
            raise
        if error.not_found and error.reason == "NotFound":
            raise gone(str(run)) from error
        raise connection.explained(error) from error
    manifest, job = read_job(raw)
    if job.uid != run.uid:
        raise gone(str(run), is_replaced=True)
    return manifest, job
