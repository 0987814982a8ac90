"""The directory of sockets: `$XDG_RUNTIME_DIR/pumice`, else `/tmp/pumice-UID`. No other user can enter it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from pumice.engines.local.run_errors import RunError

_PRIVATE = 0o700


def runtime_directory(environ: Mapping[str, str]) -> Path:
    """Create the directory, if it does not exist. Raises RunError if another user could put something into it."""
    base = Path(environ.get("XDG_RUNTIME_DIR") or "")
    # The XDG specification ignores relative paths.
    usable = base.is_absolute() and os.access(base, os.W_OK)
    directory = base / "pumice" if usable else Path(f"/tmp/pumice-{os.getuid()}")  # noqa: S108 - checked below
    try:
        directory.mkdir(mode=_PRIVATE, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise RunError(f"{directory}: {(error.strerror or str(error)).lower()}", "set XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        hint = f"remove it, or set XDG_RUNTIME_DIR: it must be a directory of user {os.getuid()} with mode 0700"
        raise RunError(f"{directory}: not a private directory of this user", hint)
    return directory


def socket_path(environ: Mapping[str, str], uid: str) -> Path:
    """Return the control socket of a run."""
    return runtime_directory(environ) / f"{uid}.sock"
