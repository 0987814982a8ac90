"""The code of a Job of a cluster for a run elsewhere: `pumice get RUN --on prod -o yaml | pumice run - --fit`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.submission.code_parts import ID_LENGTH
from pumice.client.cluster.submission.code_secrets import read_code
from pumice.engines.kubernetes.api.errors import AccessError
from pumice.engines.kubernetes.auth.access import find_kubeconfig
from pumice.model import keys
from pumice.model.job import Job
from pumice.store.code.bundles import Bundle, write_code
from pumice.store.run_errors import InvalidOption, RunError
from pumice.store.settings import FetchedCode, working_directory

_MOST: int = 1000  # directories of one name
_HINT = "without the annotation pumice/code-from, the job runs with the files of this directory"


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
        raise InvalidOption(f"metadata.annotations[{keys.CODE_FROM}]: {error}", _HINT) from error
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
        raise InvalidOption(f"the code of {job.name} is not fetched: {error.problem.message}", _HINT) from error
    wanted = working_directory() / f"{job.name}-code-{sha256[:ID_LENGTH]}"
    # A directory that exists may have been changed: the next free name is taken.
    names = [wanted, *(wanted.with_name(f"{wanted.name}-{number}") for number in range(2, _MOST))]
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
