"""Sockets and secrets, outside of the store: in `$XDG_RUNTIME_DIR/pumice`, else `/tmp/pumice-UID`.

The directory is closed to other users. For root it is `/run/pumice` instead of the latter: any user could make that
first, and root in a user namespace does. Where another user has made `/tmp/pumice-UID`, a directory in /tmp takes its
place whose name cannot be guessed; a link in the state directory has the name. It is not in the state directory itself,
which may be on another machine or in a backup: secrets must not be there. When the other user has gone, both are
searched, so no process loses another. The directory is local and disappears at logout, so nothing in it may be the only
copy of anything.

The files of a run go when it ends. A process that is killed leaves them behind; the next one that closes the run
removes them, or the service every hour.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.clock import wall_clock
from pumice.store.files.file_lock import locked
from pumice.store.files.state_directory import host_directory, make_private, state_directory
from pumice.store.run_errors import Denied, RefusedError, RunError, Unsupported
from pumice.store.settings import RUNTIME_PARENT

_SUFFIX: Final = ".sock"
_SECRETS: Final = "secrets"
_FRESH: Final = 3600.0  # seconds in which a run may not be stored yet
_PRIVATE: Final = 0o700
_WRITABLE_BY_OTHERS: Final = 0o022
_OF_ROOT: Final = Path("/run")
_LINK: Final = "runtime"  # in the directory of this machine in the state directory


def runtime_file(environ: Mapping[str, str], name: str, below: str = "") -> Path:
    """Return the path of a file in the directory, or in its directory `below`: where it is, else where to make it.

    Raises RefusedError.
    """
    directories = runtime_directories(environ)
    if below:
        directories = [private_directory(directory / below) for directory in directories]
    paths = [directory / name for directory in directories]
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def runtime_directories(environ: Mapping[str, str]) -> list[Path]:
    """Return the directory, and after it the one that was used while another user had taken its name.

    Makes the first if it is missing. Raises RefusedError if it is not safe to use.
    """
    base = Path(environ.get("XDG_RUNTIME_DIR") or "")
    # The XDG specification ignores relative paths.
    if base.is_absolute() and os.access(base, os.W_OK | os.X_OK):
        return [private_directory(base / "pumice")]
    if os.getuid() == 0 and os.access(_OF_ROOT, os.W_OK | os.X_OK):
        return [private_directory(_OF_ROOT / "pumice")]
    state = state_directory(environ)
    link = host_directory(state) / _LINK
    try:
        found = [private_directory(RUNTIME_PARENT / f"pumice-{os.getuid()}")]
    except RefusedError:
        return [_unguessable_directory(state, link)]
    with suppress(OSError, RefusedError):
        # Not made again: processes that use it make their sockets in the first.
        earlier = link.readlink()
        found += [private_directory(earlier)] if os.path.lexists(earlier) else []
    return found


def _unguessable_directory(state: Path, link: Path) -> Path:
    """Return the directory that the link names; make both if there is none, or if another user has taken the name."""
    try:
        make_private(state)
        link.parent.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        with locked(link.with_name(f"{_LINK}.lock")):
            with suppress(OSError, RefusedError):
                return private_directory(link.readlink())
            made = private_directory(RUNTIME_PARENT / f"pumice-{os.getuid()}-{os.urandom(8).hex()}")
            link.unlink(missing_ok=True)
            link.symlink_to(made)
    except OSError as error:
        kind = Denied if isinstance(error, PermissionError) else Unsupported
        hint = "set XDG_RUNTIME_DIR to a directory of your own"
        raise kind(f"{error.filename or link}: {(error.strerror or str(error)).lower()}", hint) from error
    return made


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
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise Denied(f"{directory}: other users could write to it", _HINT)
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


def control_socket(uid: str) -> Path:
    """Return the path of the control socket of a run. Raises RunError."""
    return runtime_file(os.environ, f"{uid}{_SUFFIX}")


def secrets_file(uid: str) -> Path:
    """Return the path of the values that a run needs and that are not stored. Raises RunError."""
    return runtime_file(os.environ, uid, below=_SECRETS)


def remove_runtime_files(uid: str) -> None:
    """Remove the files of a run that has ended."""
    with suppress(OSError, RunError):
        for directory in runtime_directories(os.environ):
            (directory / f"{uid}{_SUFFIX}").unlink(missing_ok=True)
            (directory / _SECRETS / uid).unlink(missing_ok=True)


def sweep_runtime_files(active: Path) -> None:
    """Remove the files of runs that are not active, unless they are new. `active` is the directory of their links."""
    with suppress(OSError, RunError):
        for directory in runtime_directories(os.environ):
            sockets = [path for path in directory.glob(f"*{_SUFFIX}") if path.stem != "service"]
            for path in (*sockets, *(directory / _SECRETS).glob("*")):
                old = wall_clock().timestamp() - path.lstat().st_mtime > _FRESH
                if old and not os.path.lexists(active / path.name.removesuffix(_SUFFIX)):
                    path.unlink(missing_ok=True)
