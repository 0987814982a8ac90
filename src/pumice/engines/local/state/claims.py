"""The directories of claims: `claims/NAMESPACE/NAME` in the state directory.

They used to be `claims/NAME`. The first job that uses an old claim takes it over, with its namespace.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pumice.model.job import Job, Manifest
from pumice.model.objects import claims

_OPEN: Final = 0o777
_PRIVATE: Final = 0o700
# In every directory of a namespace, which tells it from an old claim of the same name.
_MARKER: Final = ".namespace"


def claim_directory(state: Path, namespace: str, name: str) -> Path:
    return state / "claims" / namespace / name


def claim_paths(job: Job, documents: Sequence[Manifest], state: Path) -> dict[str, Path]:
    """Return the directory of each claim, of the user's files and of the job, by its name."""
    named = [str(each["metadata"]["name"]) for each in documents if each.get("kind") == "PersistentVolumeClaim"]
    made = [str(claim["metadata"]["name"]) for claim in claims(job)]
    namespace = job.namespace or "default"
    return {name: claim_directory(state, namespace, name) for name in dict.fromkeys([*named, *made])}


def make_claim_directories(directories: Iterable[Path]) -> None:
    """Create those that do not exist, writable for any user of a container; the directories around them are private."""
    for directory in directories:
        namespace = directory.parent
        _make_namespace(namespace)
        old = namespace.parent / directory.name
        if directory.exists():
            continue
        if old != namespace and old.is_dir() and not (old / _MARKER).exists():
            old.rename(directory)
        else:
            directory.mkdir()
            directory.chmod(_OPEN)


def _make_namespace(namespace: Path) -> None:
    namespace.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    if (namespace / _MARKER).exists():
        return
    old = namespace.with_name(f"{_MARKER}-{namespace.name}-{os.getpid()}")
    if namespace.exists():
        # An old claim with the name of the namespace.
        namespace.rename(old)
    namespace.mkdir(mode=_PRIVATE)
    (namespace / _MARKER).touch()
    if old.exists():
        old.rename(namespace / namespace.name)
