"""The Job that was submitted last from here to a namespace of a cluster: what `@last` names there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from pumice.store.files.atomic_files import replace_file
from pumice.store.files.state_directory import make_private, state_directory

_DIRECTORY: Final = "clusters"


class LastJob(Struct, frozen=True):
    name: str
    uid: str


def _path(state: Path, context: str, namespace: str) -> Path:
    return state / _DIRECTORY / quote(context, safe="") / f"{namespace}.json"


def remember_last(state: Path, context: str, namespace: str, job: LastJob) -> None:
    """A state directory that cannot be written costs only the short name."""
    path = _path(state, context, namespace)
    with suppress(OSError):
        make_private(state / _DIRECTORY)
        make_private(path.parent)
        replace_file(path, msgspec.json.encode(job) + b"\n", sync=False)


def last_job(environ: Mapping[str, str], context: str, namespace: str) -> LastJob | None:
    """Raises InvalidOption without a state directory."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_path(state_directory(environ), context, namespace).read_bytes(), type=LastJob)
    return None
