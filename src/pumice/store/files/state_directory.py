"""The state directory, `$XDG_STATE_HOME/pumice`: where it is, and why nothing can be stored in it."""

from __future__ import annotations

import errno
import os
import pwd
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pumice.model.problem import Problem
from pumice.store.run_errors import Denied, InvalidOption, RunError, StoreError, Unsupported
from pumice.store.settings import home_directory

_PRIVATE: Final = 0o700


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/pumice`; a relative value is ignored, as the XDG specification says.

    Raises InvalidOption.
    """
    base = Path(environ.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():
        home = home_directory(environ)
        if home is None:
            raise InvalidOption("there is no home directory for the state of runs", "set XDG_STATE_HOME")
        base = home / ".local" / "state"
    return base / "pumice"


def host_directory(state: Path) -> Path:
    """Return the directory of this machine: the state directory may be shared by several, as on NFS."""
    return state / "hosts" / host_name()


def host_name() -> str:
    return socket.gethostname()


def make_private(directory: Path) -> None:
    """Make a directory that is closed to other users; its parents get the default mode."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True, mode=_PRIVATE)


def state_problem(state: Path, error: OSError) -> Problem:
    """Explain why nothing can be stored in the state directory."""
    path = Path(error.filename or state)
    # mkdir fails with FileExistsError where a file has the name of the directory.
    why = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or str(error)).lower()
    owner = _other_owner(path) if isinstance(error, PermissionError) and os.path.lexists(state) else ""
    # As after a run by root with this user's home.
    first = f"it belongs to {owner}: sudo chown -R {os.getuid()} {state}" if owner else "make room there"
    hint = f"{first}, or set XDG_STATE_HOME to a directory that you can write to"
    return Problem(f"{path}: {why}, so nothing can be stored in {state}", hint)


def state_error(state: Path, error: OSError) -> RunError:
    """Return the error of a run that cannot be stored: StoreError on a full disk, else Denied or Unsupported."""
    kind: type[RunError] = Denied if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else Unsupported
    kind = StoreError if error.errno in (errno.ENOSPC, errno.EDQUOT) else kind
    return kind.of([state_problem(state, error)])


def _other_owner(path: Path) -> str:
    """Return the owner of the path, or of its nearest existing parent; empty if that is the current user."""
    existing = next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))
    try:
        owner = existing.lstat().st_uid
        return "" if owner == os.getuid() else pwd.getpwuid(owner).pw_name
    except KeyError:
        return "another user"
    except OSError:
        return ""


def once_per_machine(state: Path, warn: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that warns only in the first run: for what is true of every run on this machine."""

    def warn_once(message: str) -> None:
        import hashlib  # noqa: PLC0415 - loads OpenSSL, and lists need none

        marker = state / "told" / hashlib.sha256(message.encode()).hexdigest()[:16]
        try:
            marker.parent.mkdir(exist_ok=True, mode=_PRIVATE)
            marker.touch(exist_ok=False)
        except FileExistsError:
            return
        except OSError:
            pass  # better twice than never
        warn(message)

    return warn_once
