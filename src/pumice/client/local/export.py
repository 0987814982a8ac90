"""Packs a run into an archive, to share or to keep it. Values of secret variables and the code of the job are left out.

Logs are packed as they were written: programs may have printed secrets.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from pumice.store.code.run_code import FILE as CODE
from pumice.store.code.snapshots import SNAPSHOT, SNAPSHOT_LIST
from pumice.store.files.owner_lock import FILE as OWNER_LOCK
from pumice.store.files.run_directory import KEPT, SCRATCH
from pumice.store.files.run_store import SUPERVISOR_LOG, StoredRun
from pumice.store.journal import RESERVE
from pumice.store.redaction import redacted_line
from pumice.store.run_names import run_ref

_LOGS: Final = frozenset({".log", ".idx"})
_LEFT_OUT: Final = frozenset({OWNER_LOCK, RESERVE, SUPERVISOR_LOG, SNAPSHOT_LIST, CODE})


def export(run: StoredRun, out: BinaryIO, *, logs: bool = True) -> None:
    """Write the archive, a gzipped tar with one directory. Raises OSError."""
    top = f"{run.record.name}-{run.record.number}"
    # Commands of its verdict name the run as it is called where its archive is opened.
    own, opened = (run_ref(run.record.name, run.record.number, opened=each) for each in (False, True))
    command = re.compile(rf"(pumice logs ){re.escape(own)}(?=[/ ])".encode())
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path in sorted(run.directory.rglob("*")):
            relative = path.relative_to(run.directory)
            if relative.parts[0] in (KEPT, SCRATCH, SNAPSHOT) or path.name in _LEFT_OUT or path.is_symlink():
                continue
            if path.is_file() and (logs or path.suffix not in _LOGS):
                _add(archive, path, f"{top}/{relative}", partial(command.sub, rb"\1" + opened.encode()))


def _add(archive: tarfile.TarFile, path: Path, name: str, rename: Callable[[bytes], bytes]) -> None:
    try:
        content, modified = path.read_bytes(), int(path.stat().st_mtime)
    except FileNotFoundError:
        # The oldest segments of a long log are removed.
        return
    if path.suffix in (".json", ".jsonl"):
        # Of a run that goes on, the last line may not be complete. What cannot be read may have secrets.
        lines = [content] if path.suffix == ".json" else content.splitlines()
        content = rename(b"".join(map(redacted_line, lines)))
    if content or path.suffix != ".json":
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.mtime = len(content), 0o600, modified
        archive.addfile(entry, io.BytesIO(content))
