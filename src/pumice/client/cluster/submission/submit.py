"""Submits a Job that was checked: creates it, and nothing but what it needs.

The order of what is created makes an interruption harmless: what no Job names is removed by `clean`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.live_objects import Patience
from pumice.client.cluster.refusals import explained
from pumice.client.cluster.submission import taken_names
from pumice.client.cluster.submission.checks import Submission, overtaken
from pumice.client.cluster.submission.code_secrets import adopt, send_code
from pumice.client.cluster.submission.env_secret import create_env_secret
from pumice.client.cluster.submission.job_documents import create_document
from pumice.client.cluster.submission.job_manifest import secret_variables
from pumice.client.cluster.submission.last_job import LastJob, remember_last
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.store.run_errors import RunError

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend


async def submit(backend: ClusterBackend, submission: Submission, say: Callable[[str], None]) -> RunRef:
    """Create the Job and what it needs. Raises RunError; then nothing is left that `clean` does not remove."""
    connection, code = backend.connection, submission.code
    if code is not None:
        await send_code(connection, submission.namespace, code)
    for document in submission.documents:
        await create_document(connection, document)
    if submission.replaces is not None:
        await taken_names.delete_taken(connection, submission.replaces, say)
    submission.is_creating.set()
    try:
        metadata = (await create_job(backend, submission))["metadata"]
    except RunError:
        if submission.replaces is not None:
            say(f"{submission.replaces.status.name}: the finished Job is deleted, and this one is not created")
        raise
    run = RunRef(metadata["name"], 0, submission.namespace, metadata["uid"])
    backend.submitted.append(run)
    if variables := secret_variables(submission.request.options):
        await create_env_secret(connection, submission.marks.env_secret, run, variables)
    if code is not None:
        await adopt(connection, run, code)
    state = submission.request.options.settings.state
    remember_last(state, backend.name, run.namespace, LastJob(run.name, run.uid))
    return run


async def create_job(backend: ClusterBackend, submission: Submission) -> Manifest:
    """Create the Job once, whatever becomes of the answers of the API server."""
    patience, body = Patience(backend.connection), msgspec.json.encode(submission.manifest)
    lost = False
    while True:
        try:
            if lost and (found := await find_submitted(backend, submission)) is not None:
                return found
            raw = await backend.connection.client.create(JOBS, submission.namespace, body, strict=True)
        except ApiError as error:
            if error.is_transient:
                # The server may have created it.
                lost = True
                await patience.after(error)
                continue
            if error.already_exists:
                raise await overtaken(backend, submission) from error
            raise explained(backend.connection, error, submission.request.source) from error
        created: Manifest = msgspec.json.decode(raw)
        return created


async def find_submitted(backend: ClusterBackend, submission: Submission) -> Manifest | None:
    """Return the Job of this submission if it exists. Raises ApiError."""
    client, name = backend.connection.client, submission.manifest["metadata"].get("name")
    fields = f"metadata.name={name}" if name else ""
    async with aclosing(client.list_pages(JOBS, submission.namespace, field_selector=fields)) as pages:
        async for items, _ in pages:
            for raw in items:
                if read_metadata(raw).annotations.get(keys.SUBMISSION) == submission.marks.submission:
                    found: Manifest = msgspec.json.decode(raw)
                    return found
    return None
