"""Files of runs outside of the store: control sockets, and values that are not stored. They go when the run ends.

A process that is killed leaves them behind; the next one that closes the run removes them, or the service every hour.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon.runtime_directory import runtime_directories, runtime_file
from pumice.store.run_errors import RunError

_SUFFIX: Final = ".sock"
_SECRETS: Final = "secrets"
_FRESH: Final = 3600.0  # seconds in which a run may not be stored yet


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
