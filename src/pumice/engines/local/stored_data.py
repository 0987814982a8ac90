"""The directories of claims, `claims/NAMESPACE/NAME` in the state directory, and what runs leave behind of them.

Claims and images are listed, and removed when the user asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.images.names import familiar
from pumice.engines.local.images.store import ImageStore
from pumice.model.job import Job, Manifest
from pumice.model.objects import claims
from pumice.model.units import size_text
from pumice.store.disk_use import measure
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_store import RunStore, StoredRun

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


class StoredData(Struct, frozen=True):
    name: str
    directory: Path
    remove: Callable[[], None]  # raises OSError, and ImageError for an image that a run uses

    @property
    def size(self) -> str:
        return size_text(measure([self.directory], Path(), []).claims)


def claims_of(run: StoredRun, store: RunStore) -> list[StoredData]:
    """Return the claims of a run that exist, and that no active run uses."""
    return _unused(_paths(run, store), store)


def unused_claims(store: RunStore, namespace: str = "") -> list[StoredData]:
    """Return all claims that no active run uses; none if this version cannot read which ones a run uses."""
    if not all(run.has_our_format for run in store.active_runs()):
        return []
    return _unused(sorted(store.state.glob(f"claims/{namespace or '*'}/*")), store)


def stored_images(store: RunStore) -> list[StoredData]:
    images = ImageStore(store.state / "images")
    return [
        StoredData(f"image {familiar(each.name)}", each.root, partial(images.remove, each.name))
        for each in images.images()
        if each.digest
    ]


def _unused(claims: Iterable[Path], store: RunStore) -> list[StoredData]:
    used = {path for run in store.active_runs() for path in _paths(run, store)}
    return [
        StoredData(f"claim {path.parent.name}/{path.name}", path, partial(remove_tree, path))
        for path in claims
        if path.is_dir() and path not in used
    ]


def _paths(run: StoredRun, store: RunStore) -> Iterable[Path]:
    return claim_paths(run.written_job(), run.record.documents, store.state).values()
