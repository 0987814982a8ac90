"""Packs a run into an archive, to share or to keep it. Values of secret variables are left out.

Logs are packed as they were written: programs may have printed secrets.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from pumice.engines.local.runs.journal import RESERVE
from pumice.engines.local.runs.owner_lock import FILE as OWNER_LOCK
from pumice.engines.local.runs.run_directory import KEPT, SCRATCH
from pumice.engines.local.runs.run_record import SECRET_NAME
from pumice.engines.local.runs.run_store import RECORD, SUPERVISOR_LOG, StoredRun

REDACTED: Final = "<redacted>"
_LOGS: Final = frozenset({".log", ".idx"})
_LEFT_OUT: Final = frozenset({OWNER_LOCK, RESERVE, SUPERVISOR_LOG})


def export(run: StoredRun, out: BinaryIO, *, logs: bool = True) -> None:
    """Write the archive, a gzipped tar with one directory. Raises OSError."""
    top = f"{run.record.name}-{run.record.number}"
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path in sorted(run.directory.rglob("*")):
            relative = path.relative_to(run.directory)
            if relative.parts[0] in (KEPT, SCRATCH) or path.name in _LEFT_OUT or path.is_symlink():
                continue
            if path.is_file() and (logs or path.suffix not in _LOGS):
                _add(archive, path, f"{top}/{relative}")


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    content = path.read_bytes()
    if path.suffix == ".json":
        plain = msgspec.json.decode(content)
        if path.name == RECORD and isinstance(plain.get("marks"), list):
            # The text of the file has the values of variables, too.
            plain["marks"] = plain["marks"][:3]
        content = msgspec.json.encode(redacted(plain)) + b"\n"
    elif path.suffix == ".jsonl":
        lines = content.splitlines()
        content = b"".join(msgspec.json.encode(redacted(msgspec.json.decode(line))) + b"\n" for line in lines)
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), 0o600, int(path.stat().st_mtime)
    archive.addfile(entry, io.BytesIO(content))


def redacted(value: Any) -> Any:
    """Return the value with the values of secret variables replaced."""
    if isinstance(value, list):
        return [redacted(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("name"), str) and "value" in value and SECRET_NAME.search(value["name"]):
        return {**value, "value": REDACTED}
    env = value.get("env")
    found = {name: redacted(each) for name, each in value.items()}
    if isinstance(env, dict):
        found["env"] = {name: REDACTED if SECRET_NAME.search(name) else each for name, each in env.items()}
    return found
