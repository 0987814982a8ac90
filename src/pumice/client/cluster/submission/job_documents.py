"""The ConfigMaps, Secrets and claims that come with a Job: created before it, if they are not there."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.client.backend import RunRef
from pumice.client.cluster.control.removal import delete_job
from pumice.client.cluster.live_objects import patiently
from pumice.client.cluster.refusals import create_object, refused
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import CLAIMS, CONFIG_MAPS, SECRETS, Resource
from pumice.model.job import Manifest
from pumice.model.problem import Command, Option, Problem
from pumice.model.quantity import Quantity
from pumice.model.vocabulary import GROUP_VERSION, KIND
from pumice.store.run_errors import ConnectionFailed, Denied, ForbiddenError, InvalidOption

if TYPE_CHECKING:
    from pumice.client.cluster.connection import Connection

_RESOURCES: Final[Mapping[str, Resource]] = {each.kind: each for each in (CONFIG_MAPS, SECRETS, CLAIMS)}
_SHOWN: Final = 60
_WHAT: Final = "the values of --env"


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


async def missing_documents(
    connection: Connection, namespace: str, documents: Sequence[Manifest]
) -> tuple[Manifest, ...]:
    """Return those that are to be created; the API server accepts them. Raises RunError for one that differs."""
    missing, problems = [], []
    for document in documents:
        manifest = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
        resource, name = _RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        try:
            raw = await connection.get(resource, namespace, name)
        except Denied:
            # Who may not read it may perhaps create it.
            raw = None
        if raw is None:
            await create_document(connection, manifest, dry_run=True)
            missing.append(manifest)
        elif found := [*differences(manifest, msgspec.json.decode(raw))]:
            hint = f"delete that one if nothing else uses it, or give this {manifest['kind']} another name"
            problems.append(Problem(f"{named(manifest)} exists and differs: {', '.join(found)}", hint))
    if problems:
        raise InvalidOption.of(problems)
    return tuple(missing)


def differences(own: Manifest, there: Manifest) -> Iterator[str]:
    """Yield what the existing object has otherwise, without values of Secrets. What a server adds does not count."""
    is_secret = own["kind"] == SECRETS.kind
    if own["kind"] == CLAIMS.kind:
        yield from _unequal("spec", own.get("spec") or {}, there.get("spec") or {})
        return
    for field in ("data", "binaryData"):
        mine, other = _data(own, field), there.get(field) or {}
        for key in sorted({*mine, *other}):
            if mine.get(key) == other.get(key):
                continue
            if key not in other or key not in mine:
                yield f"{field}.{key} ({'not there' if key not in other else 'only there'})"
            else:
                shown = "" if is_secret else f" (there {_shown(other[key])}, here {_shown(mine[key])})"
                yield f"{field}.{key}{shown}"


def _data(manifest: Manifest, field: str) -> dict[str, Any]:
    found = {key: "" if value is None else value for key, value in (manifest.get(field) or {}).items()}
    if field == "data":
        texts = manifest.get("stringData") or {}
        found |= {key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()}
    return found


def _unequal(path: str, mine: object, other: object) -> Iterator[str]:
    if isinstance(mine, dict) and isinstance(other, dict):
        for key, value in mine.items():
            yield from _unequal(f"{path}.{key}", value, other.get(key))
        return
    with suppress(ValueError):
        if Quantity.parse(str(mine)) == Quantity.parse(str(other)):
            return
    if mine != other:
        yield f"{path} (there {_shown(other)}, here {_shown(mine)})"


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


async def create_document(connection: Connection, manifest: Manifest, *, dry_run: bool = False) -> None:
    """Raises RunError."""
    resource = _RESOURCES[manifest["kind"]]
    await create_object(connection, resource, manifest, named(manifest), dry_run=dry_run, strict=True)


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
    """Return an immutable Secret."""
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
            # It exists by an earlier call whose answer was lost: only this client knows the name.
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
