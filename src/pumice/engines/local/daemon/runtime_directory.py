"""The directory of sockets and secrets: `$XDG_RUNTIME_DIR/pumice`, else `/tmp/pumice-UID`. Closed to other users.

For root it is `/run/pumice` instead of the latter: any user could make that first, and root in a user namespace does.
It is local and disappears at logout, so nothing in it may be the only copy of anything.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pumice.engines.local.run_errors import Denied, Unsupported

_PRIVATE: Final = 0o700
_SHARED: Final = Path("/tmp")  # noqa: S108 - owner, type and mode are checked
_OF_ROOT: Final = Path("/run")


def runtime_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory, and make it if it is missing. Raises RefusedError if it is not safe to use."""
    base = Path(environ.get("XDG_RUNTIME_DIR") or "")
    # The XDG specification ignores relative paths.
    if base.is_absolute() and os.access(base, os.W_OK | os.X_OK):
        return private_directory(base / "pumice")
    if os.getuid() == 0 and os.access(_OF_ROOT, os.W_OK | os.X_OK):
        return private_directory(_OF_ROOT / "pumice")
    return private_directory(_SHARED / f"pumice-{os.getuid()}")


def private_directory(directory: Path) -> Path:
    """Make a directory that is closed to other users. Raises RefusedError: another user may have made it first."""
    try:
        directory.mkdir(mode=_PRIVATE, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        kind = Denied if isinstance(error, PermissionError) else Unsupported
        raise kind(f"{directory}: {(error.strerror or str(error)).lower()}", _HINT) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Unsupported(f"{directory}: not a directory, so no socket can be there", _HINT)
    if found.st_uid != os.getuid():
        raise Denied(f"{directory}: belongs to another user (uid {found.st_uid})", _HINT)
    if stat.S_IMODE(found.st_mode) != _PRIVATE:
        directory.chmod(_PRIVATE)
    return directory


_HINT: Final = "remove it, or set XDG_RUNTIME_DIR to a directory of your own"


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield an address for the socket. A path of a socket has at most 107 bytes; through /proc any path fits."""
    proc = Path("/proc/self/fd")
    if len(os.fsencode(path)) < 100 or not proc.is_dir():  # noqa: PLR2004 - with a margin for other systems
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield str(proc / str(directory) / path.name)
    finally:
        os.close(directory)
