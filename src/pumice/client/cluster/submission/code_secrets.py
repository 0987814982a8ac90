"""The Secrets with the code of Jobs: sends what is not there, gives it owners, reads it, and finds what no Job names.

A bundle exists before its Job, and belongs to it afterwards; one that two Jobs use has two owners. So a client that is
killed leaves at most a bundle that no Job names, which `clean` removes.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.live_objects import patiently
from pumice.client.cluster.refusals import create_object
from pumice.client.cluster.submission.code_parts import (
    ID_LENGTH,
    INDEX,
    PREFIX,
    CodeParts,
    MountedFile,
    sha256_of,
)
from pumice.client.cluster.submission.job_documents import owner, secret
from pumice.engines.kubernetes.api.errors import AccessError, ApiError
from pumice.engines.kubernetes.api.resources import JOBS, SECRETS
from pumice.engines.kubernetes.auth.access import find_kubeconfig
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.problem import Position
from pumice.model.units import size_text
from pumice.store.code.bundles import Bundle, pack, read_bundle, write_code
from pumice.store.code.selection import CodeFile
from pumice.store.options import CodeMode
from pumice.store.run_errors import Denied, IncompleteCodeError, InvalidOption, RunError
from pumice.store.settings import FetchedCode, working_directory

MOST: Final = 64 << 20  # bytes of bundles in a namespace
_SIZE: Final = "pumice/size"
_MODE: Final = "pumice/code-mode"
_LEFT_OUT: Final = "pumice/left-out"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_NAME: Final = re.compile(rf"{PREFIX}([0-9a-f]{{{ID_LENGTH}}})-([0-9]{{1,4}})")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_SIZE: Final = 9  # digits
_PAUSE: Final = 0.2
_MOST_DIRECTORIES: Final = 1000  # directories of one name
_NOT_FETCHED: Final = "without the annotation pumice/code-from, the job runs with the files of this directory"


class StoredPart(Struct, frozen=True):
    """A Secret with a part of a bundle."""

    name: str
    namespace: str
    uid: str
    version: str  # of the object
    id: str
    sha256: str
    size: int
    owners: Sequence[str] = ()  # uids
    is_deleting: bool = False


async def stored_parts(connection: Connection, namespace: str = "", bundle: str = "") -> list[StoredPart]:
    """Return the parts of one bundle, or of all; without a namespace, those of all. Raises ApiError.

    Anybody can give a Secret our label: one whose name does not agree with it is none of ours.
    """
    selector = f"{keys.CODE}={bundle}" if bundle else keys.CODE
    client = connection.client
    pages = client.list_pages(SECRETS, namespace or None, label_selector=selector, metadata_only=True, attempts=3)
    found: list[StoredPart] = []
    async with aclosing(pages):
        async for items, _ in pages:
            found += map(_stored, items)
    return [each for each in found if (match := _NAME.fullmatch(each.name)) is not None and match[1] == each.id]


def _stored(raw: msgspec.Raw) -> StoredPart:
    metadata = msgspec.json.decode(raw)["metadata"]
    annotations = metadata.get("annotations") or {}
    size = annotations.get(_SIZE, "")
    return StoredPart(
        metadata["name"],
        metadata["namespace"],
        metadata["uid"],
        metadata["resourceVersion"],
        metadata["labels"].get(keys.CODE, ""),
        annotations.get(keys.CODE, ""),
        int(size) if size.isascii() and size.isdecimal() and len(size) <= _LONGEST_SIZE else 0,
        [each["uid"] for each in metadata.get("ownerReferences") or ()],
        metadata.get("deletionTimestamp") is not None,
    )


async def check_room(connection: Connection, namespace: str, code: CodeParts) -> None:
    """Raises InvalidOption if the namespace has too many bundles, as far as this user may know."""
    try:
        stored = await stored_parts(connection, namespace)
    except ApiError as error:
        if error.is_forbidden:
            return
        raise connection.explained(error) from error
    others = sum(each.size for each in stored if each.id != code.id)
    if others + code.size > MOST:
        message = f"{namespace} has {size_text(others)} of code: with this it is more than {size_text(MOST)}"
        hint = f"pumice clean {connection.flags(namespace)} removes what no Job uses"
        raise InvalidOption(message, hint, Position(option="code"))


async def send_code(connection: Connection, namespace: str, code: CodeParts) -> int:
    """Create the Secrets that are missing; return how many were sent. Raises RunError."""

    async def missing() -> list[int]:
        try:
            stored = {each.name: each for each in await stored_parts(connection, namespace, code.id)}
        except ApiError as error:
            if not error.is_forbidden:
                raise
            # Each is tried, and one that exists is good: its name says what it has.
            return [*range(len(code.parts))]
        for each in stored.values():
            if each.sha256 != code.sha256:
                message = f"the Secret {each.name} has other code, of sha256 {each.sha256}"
                raise InvalidOption(message, "change a file: the hash of the code is another one then")
        return [number for number, name in enumerate(code.names) if name not in stored or stored[name].is_deleting]

    numbers = await patiently(connection, missing)
    for number in numbers:
        await _create_part(connection, namespace, code, number)
    return len(numbers)


async def _create_part(
    connection: Connection, namespace: str, code: CodeParts, number: int, owners: Sequence[Manifest] = ()
) -> None:
    """Raises RunError."""
    name, data = code.names[number], code.parts[number]
    annotations = {keys.CODE: code.sha256, _SIZE: str(sum(map(len, data.values()))), _MODE: str(code.mode)}
    if code.left_out:
        annotations[_LEFT_OUT] = ", ".join(code.left_out)
    metadata = {"name": name, "namespace": namespace, "labels": {keys.CODE: code.id}, "annotations": annotations}
    what = f"the code cannot be stored: Secret {name}"
    await create_object(connection, SECRETS, secret(metadata, data, owners), what)


async def adopt(connection: Connection, run: RunRef, code: CodeParts) -> None:
    """Make a Job an owner of its code, and create again what was collected meanwhile. Raises RunError."""
    while True:
        for number, name in enumerate(code.names):
            if not await adopt_secret(connection, run, name):
                await _create_part(connection, run.namespace, code, number, [owner(run)])
        # The collector may have decided before the reference was there.
        try:
            kept = await patiently(connection, lambda: stored_parts(connection, run.namespace, code.id))
        except Denied:
            return
        if {each.name for each in kept if not each.is_deleting} >= {*code.names}:
            return
        await asyncio.sleep(_PAUSE)


async def adopt_secret(connection: Connection, run: RunRef, name: str) -> bool:
    """Make a Job an owner of a Secret, beside others. Return whether the Secret exists. Raises RunError."""
    patch = msgspec.json.encode({"metadata": {"ownerReferences": [owner(run)]}})
    path = SECRETS.path(run.namespace, name)

    async def patched() -> bool:
        try:
            # References are merged by their uids: nobody overwrites those of others.
            await connection.client.request("PATCH", path, body=patch, content_type=_STRATEGIC)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return True

    return await patiently(connection, patched)


# --- read ---------------------------------------------------------------------------------------------------------


async def read_code(connection: Connection, run: RunRef, sha256: str) -> Bundle:
    """Return the code of a Job, with the hash that it names: others may write such Secrets. Raises RunError."""
    if not _SHA256.fullmatch(sha256):
        raise InvalidOption(f"{run}: metadata.annotations[{keys.CODE}]: must be a sha256, of 64 hexadecimal digits")
    bundle = sha256[:ID_LENGTH]
    found: dict[int, Manifest] = {}
    for raw in await connection.all(SECRETS, run.namespace, labels=f"{keys.CODE}={bundle}"):
        manifest = msgspec.json.decode(raw)
        metadata = manifest["metadata"]
        match = _NAME.fullmatch(metadata["name"])
        is_part = match is not None and match[1] == bundle
        if match is not None and is_part and (metadata.get("annotations") or {}).get(keys.CODE) == sha256:
            found[int(match[2])] = manifest
    if not found:
        raise IncompleteCodeError(f"{run}: the Secrets with its code are gone", "they go with the Jobs that name them")
    own = [manifest for _, manifest in sorted(found.items())]
    annotations = own[0]["metadata"]["annotations"]
    left_out = tuple(filter(None, annotations.get(_LEFT_OUT, "").split(", ")))
    parts = [{key: base64.b64decode(value) for key, value in (each.get("data") or {}).items()} for each in own]
    if annotations.get(_MODE) != CodeMode.READ_ONLY:
        return read_bundle(sha256, b"".join(part.get("part", b"") for part in parts), left_out)
    if sha256_of(parts) != sha256:
        raise IncompleteCodeError(f"{run}: the Secrets with its code have other files than those that were sent")
    try:
        index = next(part[INDEX] for part in parts if INDEX in part)
        mounted = msgspec.json.decode(index, type=list[MountedFile])
        contents = [(each, parts[each.part][each.key]) for each in mounted]
        return pack([(CodeFile(each.path, each.mode, len(content)), content) for each, content in contents], left_out)
    except (StopIteration, LookupError, msgspec.MsgspecError) as error:
        raise IncompleteCodeError(f"{run}: some of the Secrets with its code are gone") from error


class UnusedCode(Struct, frozen=True):
    """Bundles by namespace and id, each with its Secrets."""

    connection: Connection
    bundles: dict[tuple[str, str], list[StoredPart]]

    @property
    def names(self) -> Sequence[str]:
        return [
            f"{self._name(key)} ({size_text(sum(each.size for each in parts))})" for key, parts in self.bundles.items()
        ]

    async def remove(self) -> AsyncGenerator[tuple[str, str], None]:
        """A Secret that changed since it was read stays: a Job may have got it meanwhile."""
        for key, parts in self.bundles.items():
            why, delete = "", self.connection.client.delete
            for part in parts:
                try:
                    await delete(
                        SECRETS, part.namespace, part.name, uid=part.uid, resource_version=part.version, attempts=3
                    )
                except ApiError as error:
                    if not error.not_found:
                        why = "it is in use again" if error.is_conflict else str(error)
            yield self._name(key), why

    def _name(self, key: tuple[str, str]) -> str:
        namespace, code = key
        return f"code {code} on {self.connection.name}/{namespace}"


async def find_unused_code(connection: Connection) -> UnusedCode:
    """Raises RunError: Denied without the right to list Secrets."""
    used: set[tuple[str, str]] = set()
    uids: set[str] = set()
    with connection.explaining():
        # Secrets first: a Job that is created meanwhile is seen, and so is the code that it names.
        stored = await stored_parts(connection, connection.namespace)
        pages = connection.client.list_pages(JOBS, connection.namespace or None, metadata_only=True, attempts=3)
        async for items, _ in pages:
            for metadata in (msgspec.json.decode(raw)["metadata"] for raw in items):
                used.add((metadata["namespace"], (metadata.get("annotations") or {}).get(keys.CODE, "")))
                uids.add(metadata["uid"])
    bundles: dict[tuple[str, str], list[StoredPart]] = {}
    for part in stored:
        is_used = (part.namespace, part.sha256) in used or uids & {*part.owners}
        if not is_used and not part.is_deleting and part.sha256.startswith(part.id):
            bundles.setdefault((part.namespace, part.id), []).append(part)
    return UnusedCode(connection, bundles)


# --- for a run elsewhere: `pumice get RUN --on prod -o yaml | pumice run - --fit` -------------------------------------


class CodeOrigin(Struct, frozen=True):
    """Where the code of a Job is, and where pods had it. A file with a Job may say anything here."""

    on: str
    kubeconfig: str = ""  # that had the context; it is never read because a Job names it
    directories: tuple[str, ...] = ()


def fetch_code(job: Job) -> FetchedCode:
    """Write the code into a new directory here. Raises RunError."""
    annotations: Mapping[str, str] = job.metadata.annotations
    sha256 = annotations.get(keys.CODE, "")
    try:
        origin = msgspec.json.decode(annotations[keys.CODE_FROM], type=CodeOrigin)
    except msgspec.MsgspecError as error:
        raise InvalidOption(f"metadata.annotations[{keys.CODE_FROM}]: {error}", _NOT_FETCHED) from error
    _check_kubeconfig(origin.kubeconfig)
    connection = Connection.open(origin.on, job.namespace)

    async def read() -> Bundle:
        try:
            return await read_code(connection, RunRef(job.name, 0, connection.namespace, ""), sha256)
        finally:
            await connection.close()

    try:
        bundle = asyncio.run(read())
    except RunError as error:
        raise InvalidOption(f"the code of {job.name} is not fetched: {error.problem.message}", _NOT_FETCHED) from error
    wanted = working_directory() / f"{job.name}-code-{sha256[:ID_LENGTH]}"
    # A directory that exists may have been changed: the next free name is taken.
    names = [wanted, *(wanted.with_name(f"{wanted.name}-{number}") for number in range(2, _MOST_DIRECTORIES))]
    directory = next((each for each in names if not each.exists()), wanted)
    write_code(job.name, bundle, directory)
    return FetchedCode(directory, tuple(map(Path, origin.directories)), f"{origin.on}/{connection.namespace}")


def _check_kubeconfig(name: str) -> None:
    """A kubeconfig can start programs. Raises InvalidOption unless the user names this one, too."""
    if not name:
        return
    try:
        found = find_kubeconfig(None)
    except AccessError as error:
        raise InvalidOption(str(error)) from error
    own = {os.path.realpath(each) for each in found.files} if found is not None else set()
    if os.path.realpath(Path(name).expanduser()) not in own:
        message = f"metadata.annotations[{keys.CODE_FROM}]: a Job does not choose the kubeconfig {name}"
        raise InvalidOption(message, "set KUBECONFIG to it if it is yours")
