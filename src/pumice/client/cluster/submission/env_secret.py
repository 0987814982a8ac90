"""The Secret with the caller's own variables: `--env NAME`. The Job names it, and owns it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.control.removal import delete_job
from pumice.client.cluster.live_objects import patiently
from pumice.client.cluster.refusals import refused
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import SECRETS
from pumice.model.job import Manifest
from pumice.model.problem import Command, Option
from pumice.model.vocabulary import GROUP_VERSION, KIND
from pumice.store.run_errors import ConnectionFailed, Denied, ForbiddenError, InvalidOption

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_WHAT: Final = "the values of --env"


def owner(run: RunRef) -> Manifest:
    """Return the reference by which the garbage collector removes what a Job needed."""
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "name": run.name,
        "uid": run.uid,
        "blockOwnerDeletion": False,
    }


def secret(metadata: Manifest, data: Mapping[str, bytes], owners: Sequence[Manifest] = ()) -> Manifest:
    """Return a Secret that nobody changes."""
    metadata = {**metadata, "ownerReferences": [*owners]} if owners else metadata
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "data": encoded}


def _env_secret(name: str, namespace: str, variables: Mapping[str, str], owners: Sequence[Manifest] = ()) -> bytes:
    data = {key: os.fsencode(value) for key, value in variables.items()}
    return msgspec.json.encode(secret({"name": name, "namespace": namespace}, data, owners))


async def try_env_secret(connection: Connection, name: str, namespace: str, variables: Mapping[str, str]) -> None:
    """Raises RunError if the API server would refuse the Secret, also by its policies. Nothing is created."""
    body = _env_secret(name, namespace, variables)
    try:
        await connection.client.create(SECRETS, namespace, body, dry_run=True, attempts=3)
    except ApiError as error:
        raise refused(connection, f"{_WHAT} cannot be stored: Secret {name}", error) from error


async def create_env_secret(connection: Connection, name: str, run: RunRef, variables: Mapping[str, str]) -> None:
    """Create the Secret, without which the pods do not start. Raises RunError; then the Job is deleted."""
    body = _env_secret(name, run.namespace, variables, [owner(run)])

    async def create() -> None:
        try:
            await connection.client.create(SECRETS, run.namespace, body)
        except ApiError as error:
            # It exists by an earlier call whose answer was lost: nobody else knows the name.
            if not error.already_exists:
                raise refused(connection, "", error) from error

    try:
        await patiently(connection, create)
    except ConnectionFailed as error:
        message = f"{run} was created, and its pods wait for {_WHAT}, which could not be sent: {error.problem.message}"
        removal = Command("rm", str(run), options=(*connection.where(run.namespace), Option("force", True)))
        raise ConnectionFailed(message, (removal,)) from error
    except (Denied, InvalidOption) as error:
        await delete_job(connection, run)
        message = f"{_WHAT} cannot be stored, so {run} is deleted again: {error.problem.message}"
        raise ForbiddenError(message, error.hint) from error
