"""Files of runs outside of the store: control sockets, and values that are not stored. They go when the run ends.

A process that is killed leaves them behind; the next one that closes the run removes them, or the service every hour.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.engines.local.clock import wall_clock
from pumice.engines.local.daemon.runtime_directory import runtime_directory
from pumice.engines.local.run_errors import RunError

_SUFFIX: Final = ".sock"
_FRESH: Final = 3600.0  # seconds in which a run may not be stored yet


def control_socket(uid: str) -> Path:
    """Return the path of the control socket of a run. Raises RunError."""
    return runtime_directory(os.environ) / f"{uid}{_SUFFIX}"


def secrets_file(uid: str) -> Path:
    """Return the path of the values that a run needs and that are not stored. Raises OSError and RunError."""
    directory = runtime_directory(os.environ) / "secrets"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / uid


def remove_runtime_files(uid: str) -> None:
    """Remove the files of a run that has ended."""
    with suppress(OSError, RunError):
        control_socket(uid).unlink(missing_ok=True)
        secrets_file(uid).unlink(missing_ok=True)


def sweep_runtime_files(active: Path) -> None:
    """Remove the files of runs that are not active, unless they are new. `active` is the directory of their links."""
    with suppress(OSError, RunError):
        sockets = [path for path in runtime_directory(os.environ).glob(f"*{_SUFFIX}") if path.stem != "service"]
        for path in (*sockets, *secrets_file("").iterdir()):
            old = wall_clock().timestamp() - path.lstat().st_mtime > _FRESH
            if old and not os.path.lexists(active / path.name.removesuffix(_SUFFIX)):
                path.unlink(missing_ok=True)
