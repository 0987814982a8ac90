"""Checks a Job that is to be submitted to a cluster, and submits it: creates it, and nothing but what it needs.

What can be known before is known before anything is created. The order of what is created makes an interruption
harmless: what no Job names is removed by `clean`.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pumice.client.backend import RunRef
from pumice.client.cluster.live_objects import Patience
from pumice.client.cluster.pod_references import check_references
from pumice.client.cluster.refusals import explained
from pumice.client.cluster.submission import taken_names
from pumice.client.cluster.submission.code_parts import CodeParts, make_parts
from pumice.client.cluster.submission.code_secrets import adopt, check_room, send_code
from pumice.client.cluster.submission.code_volumes import code_problems, hidden_directories, with_code
from pumice.client.cluster.submission.job_documents import (
    create_document,
    create_env_secret,
    missing_documents,
    named,
    try_env_secret,
)
from pumice.client.cluster.submission.job_manifest import Marks, job_manifest, secret_variables
from pumice.client.cluster.submission.last_job import LastJob, remember_last
from pumice.client.cluster.submission.taken_names import Taken
from pumice.client.cluster.validation import outlook
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.problem import Position, Problem
from pumice.store.options import ClusterOptions
from pumice.store.run_errors import InvalidOption, NameTakenError, RunError
from pumice.store.run_request import RunRequest

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.client.cluster.connection import Connection

_DEADLINE: Final = "activeDeadlineSeconds"
KEPT_HERE: Final = (
    "Jobs of this cluster have no activeDeadlineSeconds: --timeout ends the Job only while this command follows it"
)
_TRIAL: Final = "pumice-trial-"  # the name of a Job that is never stored


class Submission(Struct, frozen=True):
    """A Job that the API server accepts, and all that is created with it."""

    request: RunRequest
    manifest: Manifest
    marks: Marks
    code: CodeParts | None = None
    documents: Sequence[Manifest] = ()
    replaces: Taken | None = None
    notes: Sequence[str] = ()
    seconds: float | None = None  # after which the client stops the Job
    is_creating: asyncio.Event = field(default_factory=asyncio.Event)  # from then on, the Job may exist

    @property
    def note(self) -> str:
        return "\n".join(self.notes)

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"]["namespace"])

    @property
    def options(self) -> ClusterOptions:
        return self.request.options.cluster or ClusterOptions()


async def check(backend: ClusterBackend, request: RunRequest) -> Submission:
    """Return what is to be created. Nothing is created. Raises RunError for what cannot get better by waiting."""
    connection = backend.connection
    namespace = chosen_namespace(backend, request)
    marks = Marks(secrets.token_hex(4), await connection.user_name())
    manifest = job_manifest(request, namespace, marks)
    options = request.options.cluster or ClusterOptions()
    documents = await missing_documents(connection, namespace, request.documents)
    plain, variables = manifest, secret_variables(request.options)
    ours = {*map(named, request.documents), f"Secret {marks.env_secret}"}
    await check_references(connection, manifest, ours, request.source)
    if variables:
        await try_env_secret(connection, marks.env_secret, namespace, variables)
    notes: list[str] = []
    code = None
    if options.code is not None:
        code = await asyncio.to_thread(make_parts, options, request.options.settings.state)
        if problems := [*code_problems(manifest, options)]:
            raise InvalidOption.of(problems)
        await check_room(connection, namespace, code)
        hidden = " and ".join(hidden_directories(manifest, options))
        notes += [*code.notes(), f"pods have it in {hidden}, where it hides what their images have"]
        manifest = with_code(manifest, code, options)
    seconds = request.options.timeout
    if seconds is not None and await knows_deadline(connection):
        manifest, seconds = with_deadline(manifest, seconds), None
    notes += [] if seconds is None else [KEPT_HERE]
    taken = None
    if name := manifest["metadata"].get("name"):
        taken = await taken_names.find_taken(connection, namespace, name)
        if taken is not None:
            await taken_names.check_taken(connection, taken, options, marks.user, backend.now())
    submission = Submission(request, manifest, marks, code, documents, taken, notes, seconds)
    given = [*request.documents, *({"kind": "Secret", "metadata": {"name": marks.env_secret}} for _ in variables)]
    _, found = await asyncio.gather(_try(backend, submission), outlook(connection, plain, given))
    notes += [str(Problem(f"warning: {each.text}", where=request.source(each.path))) for each in found]
    return submission


def chosen_namespace(backend: ClusterBackend, request: RunRequest) -> str:
    """Return that of -n, else that of the Job, else that of the context. Raises InvalidOption if two differ."""
    typed, own = backend.typed_namespace, request.job.written.namespace
    if typed and own and typed != own:
        message = f"{typed}: the Job has the namespace {own}"
        raise InvalidOption(message, "leave out one of them", Position(option="namespace"))
    return own or backend.default_namespace


async def _try(backend: ClusterBackend, submission: Submission) -> None:
    """Let the API server check the Job without storing it; under another name if its own is taken."""
    manifest = submission.manifest
    if submission.replaces is not None:
        metadata = {name: value for name, value in manifest["metadata"].items() if name != "name"}
        manifest = {**manifest, "metadata": {**metadata, "name": _TRIAL + submission.marks.submission}}
    body = msgspec.json.encode(manifest)
    try:
        await backend.connection.client.create(JOBS, submission.namespace, body, dry_run=True, strict=True, attempts=3)
    except ApiError as error:
        if not error.already_exists:
            raise explained(backend.connection, error, submission.request.source) from error


async def knows_deadline(connection: Connection) -> bool:
    """Return whether the definition of Jobs there has the field. Who may not know gets False."""
    path = f"/openapi/v3/apis/{JOBS.api_version}"
    try:
        found = msgspec.json.decode(await connection.client.request("GET", path, attempts=3))
    except (ApiError, msgspec.MsgspecError):
        return False
    schemas: dict[str, Any] = (found.get("components") or {}).get("schemas") or {}
    of_jobs = (each.get("properties") or {} for name, each in schemas.items() if name.endswith(f".{JOBS.kind}"))
    return any(_DEADLINE in ((fields.get("spec") or {}).get("properties") or {}) for fields in of_jobs)


def with_deadline(manifest: Manifest, seconds: float) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], _DEADLINE: max(1, math.ceil(seconds))}}


async def overtaken(backend: ClusterBackend, submission: Submission) -> RunError:
    """Return the error of a name that another person has taken since the check."""
    name, connection = submission.manifest["metadata"]["name"], backend.connection
    taken = await taken_names.find_taken(connection, submission.namespace, name)
    if taken is not None:
        options = replace(submission.options, replace=False)
        try:
            await taken_names.check_taken(connection, taken, options, submission.marks.user, backend.now())
        except NameTakenError as error:
            return error
    return InvalidOption(f"{name}: a Job of this name was created meanwhile", "try again")


# --- nothing was created before --------------------------------------------------------------------------------------


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
