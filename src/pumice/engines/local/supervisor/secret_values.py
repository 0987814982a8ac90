"""Values that a run needs and that are not stored: variables that were passed on, and Secrets.

They wait for the run's process in the runtime directory, which is in memory, and are removed when the run ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pumice.engines.local.daemon.runtime_directory import runtime_directory
from pumice.engines.local.runs.atomic_files import replace_file
from pumice.engines.local.runs.new_record import secret_names
from pumice.engines.local.runs.run_request import RunRequest
from pumice.model.job import Manifest


class SecretValues(msgspec.Struct, frozen=True, kw_only=True):
    env: dict[str, str] = {}
    documents: list[dict[str, Any]] = []  # the Secrets


def keep_secrets(uid: str, request: RunRequest) -> None:
    """Raises OSError, and RunError if there is no private directory."""
    names = secret_names(request.options)
    env = {name: value for name, value in request.options.settings.env.items() if name in names}
    secrets = [dict(document) for document in request.documents if document.get("kind") == "Secret"]
    if env or secrets:
        replace_file(_file(uid), msgspec.json.encode(SecretValues(env=env, documents=secrets)), sync=False)


def read_secrets(uid: str) -> SecretValues | None:
    """Return the values; None if they are gone, as after a restart of the machine. Raises RunError."""
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_file(uid).read_bytes(), type=SecretValues)
    return None


def drop_secrets(uid: str) -> None:
    """Raises RunError."""
    with suppress(OSError):
        _file(uid).unlink(missing_ok=True)


def with_values(documents: Sequence[Manifest], secrets: Sequence[Manifest]) -> list[Manifest]:
    """Return the stored documents, with the Secrets as they were."""
    kept = {document["metadata"]["name"]: document for document in secrets}
    return [
        kept.get(document["metadata"]["name"], document) if document.get("kind") == "Secret" else document
        for document in documents
    ]


def _file(uid: str) -> Path:
    directory = runtime_directory(os.environ) / "secrets"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / uid
