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


def env_secret(name: str, namespace: str, variables: Mapping[str, str], owners: Sequence[Manifest] = ()) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    if owners:
        metadata["ownerReferences"] = [*owners]
    data = {key: base64.b64encode(os.fsencode(value)).decode() for key, value in variables.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "immutable": True, "data": data}


async def try_env_secret(connection: Connection, name: str, namespace: str, variables: Mapping[str, str]) -> None:
    """Raises RunError if the API server would refuse the Secret, also by its policies. Nothing is created."""
    body = msgspec.json.encode(env_secret(name, namespace, variables))
    try:
        await connection.client.create(SECRETS, namespace, body, dry_run=True, attempts=3)
    except ApiError as error:
        raise refused(connection, f"{_WHAT} cannot be stored: Secret {name}", error) from error


async def create_env_secret(connection: Connection, name: str, run: RunRef, variables: Mapping[str, str]) -> None:
    """Create the Secret, without which the pods do not start. Raises RunError; then the Job is deleted."""
    body = msgspec.json.encode(env_secret(name, run.namespace, variables, [owner(run)]))
    try:
        await patiently(connection, lambda: _create(connection, run.namespace, body))
    except ConnectionFailed as error:
        message = f"{run} was created, and its pods wait for {_WHAT}, which could not be sent: {error.problem.message}"
        removal = Command("rm", str(run), options=(*connection.where(run.namespace), Option("force", True)))
        raise ConnectionFailed(message, (removal,)) from error
    except (Denied, InvalidOption) as error:
        await delete_job(connection, run)
        message = f"{_WHAT} cannot be stored, so {run} is deleted again: {error.problem.message}"
        raise ForbiddenError(message, error.hint) from error


async def _create(connection: Connection, namespace: str, body: bytes) -> None:
    """Raises RunError."""
    try:
        await connection.client.create(SECRETS, namespace, body)
    except ApiError as error:
        # It exists by an earlier call whose answer was lost: nobody else knows the name.
        if not error.already_exists:
            raise refused(connection, "", error) from error
