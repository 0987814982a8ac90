"""The directories of claims: `claims/NAMESPACE/NAME` in the state directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from pumice.model.job import Job, Manifest
from pumice.model.objects import claims
from pumice.store.files.atomic_files import replace_file

_OPEN: Final = 0o777
_PRIVATE: Final = 0o700


def claim_directory(state: Path, namespace: str, name: str) -> Path:
    return state / "claims" / namespace / name


def claim_paths(job: Job, documents: Sequence[Manifest], state: Path) -> dict[str, Path]:
    """Return the directory of each claim, of the user's files and of the job, by its name."""
    named = [str(each["metadata"]["name"]) for each in documents if each.get("kind") == "PersistentVolumeClaim"]
    made = [str(claim["metadata"]["name"]) for claim in claims(job)]
    namespace = job.namespace or "default"
    return {name: claim_directory(state, namespace, name) for name in dict.fromkeys([*named, *made])}


def note_use(claim: Path, project: Path) -> str:
    """Note the directory of the Job file that uses a claim; return the one before if it was another.

    Claims are found by name, so two projects with a claim `checkpoints` resume from each other's. Raises OSError.
    """
    namespace = claim.parent
    note = namespace.parent.parent / "claim-users" / namespace.name / claim.name
    before = note.read_text(encoding="utf-8", errors="surrogateescape") if note.exists() else ""
    if before != str(project):
        note.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        replace_file(note, str(project).encode(errors="surrogateescape"), sync=False)
    try:
        return before if before != str(project) and any(claim.iterdir()) else ""
    except OSError:
        # A pod took the right to read it: there is something.
        return before


def make_claim_directories(directories: Iterable[Path]) -> None:
    """Create those that do not exist, writable for any user of a container; the directories around them are private."""
    for directory in directories:
        namespace = directory.parent
        namespace.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        namespace.mkdir(exist_ok=True, mode=_PRIVATE)
        if not directory.exists():
            directory.mkdir()
            directory.chmod(_OPEN)
