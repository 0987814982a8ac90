"""Values that a run needs and that are not stored: variables that were passed on, and Secrets.

They wait for the run's process in the runtime directory, which is in memory, and are removed when the run ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from pumice.engines.local.daemon.runtime_files import secrets_file
from pumice.engines.local.preparation.new_record import file_hash
from pumice.model.job import Manifest
from pumice.store.files.atomic_files import replace_file
from pumice.store.options import secret_names
from pumice.store.run_errors import RunError
from pumice.store.run_record import RunRecord
from pumice.store.run_request import RunRequest


class SecretsMissingError(RunError):
    """Values that are not stored are gone, as after a restart of the machine."""


class SecretValues(msgspec.Struct, frozen=True, kw_only=True):
    env: dict[str, str] = {}
    documents: list[dict[str, Any]] = []  # the Secrets


def keep_secrets(uid: str, request: RunRequest) -> None:
    """Raises OSError, and RunError if there is no private directory."""
    names = secret_names(request.options)
    env = {name: value for name, value in request.options.settings.env.items() if name in names}
    secrets = [dict(document) for document in request.documents if document.get("kind") == "Secret"]
    if env or secrets:
        replace_file(secrets_file(uid), msgspec.json.encode(SecretValues(env=env, documents=secrets)), sync=False)


def add_secrets(uid: str, env: Mapping[str, str], documents: Sequence[Manifest]) -> None:
    """Keep further values of a run that waits for them. Raises OSError and RunError."""
    kept = _kept(uid)
    new = {document["metadata"]["name"]: dict(document) for document in documents if document.get("kind") == "Secret"}
    others = [each for each in kept.documents if each["metadata"]["name"] not in new]
    values = SecretValues(env={**kept.env, **env}, documents=[*others, *new.values()])
    replace_file(secrets_file(uid), msgspec.json.encode(values), sync=False)


def read_secrets(record: RunRecord) -> SecretValues:
    """Return the values that are not stored: as they were kept, else read again from files that have not changed.

    Raises SecretsMissingError if some are gone, and RunError.
    """
    kept = _kept(record.uid)
    found = {str(each["metadata"]["name"]): each for each in kept.documents}
    named = [name.removeprefix("Secret ") for name in record.secrets if name.startswith("Secret ")]
    if set(named) - set(found):
        found = {**_from_files(record), **found}
    variables = [name for name in record.secrets if not name.startswith("Secret ")]
    missing = [name for name in variables if name not in kept.env]
    gone = [f"Secret {name}" for name in named if name not in found]
    if missing or gone:
        words = [f"--env {name}" for name in missing] + (["--with FILE"] if gone else [])
        hint = f"pumice resume {record.ref} {' '.join(words)}"
        raise SecretsMissingError(f"the values of {', '.join((*missing, *gone))} are not stored, and gone", hint)
    return SecretValues(env=kept.env, documents=[found[name] for name in named])


def _kept(uid: str) -> SecretValues:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(secrets_file(uid).read_bytes(), type=SecretValues)
    return SecretValues()


def _from_files(record: RunRecord) -> dict[str, dict[str, Any]]:
    """Return the Secrets of the files that the run was submitted with, by name, as far as those have not changed."""
    from pumice.yaml.documents import read  # noqa: PLC0415 - few runs need it: a twentieth of the start of each

    found: dict[str, dict[str, Any]] = {}
    for path, known in record.sources.items():
        for document in read(path)[0] if file_hash(Path(path)) == known else ():
            value = document.value
            if isinstance(value, dict) and value.get("kind") == "Secret":
                found[str(value["metadata"]["name"])] = value
    return found


def drop_secrets(uid: str) -> None:
    """Raises RunError."""
    with suppress(OSError):
        secrets_file(uid).unlink(missing_ok=True)


def with_values(documents: Sequence[Manifest], secrets: Sequence[Manifest]) -> list[Manifest]:
    """Return the stored documents, with the Secrets as they were."""
    kept = {document["metadata"]["name"]: document for document in secrets}
    return [
        kept.get(document["metadata"]["name"], document) if document.get("kind") == "Secret" else document
        for document in documents
    ]
