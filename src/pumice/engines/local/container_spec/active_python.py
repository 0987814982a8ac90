"""Finds the Python that `python3` starts in the user's shell: pods without an image get the same one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_QUERY: Final = "import sys; print(sys.prefix, sys.base_prefix, sys.executable, sep='\\n')"
_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class ActivePython:
    """`bin` goes to the front of PATH; `directories` are all that this Python needs to run."""

    bin: str = ""
    directories: tuple[Path, ...] = ()


def active_python(environ: Mapping[str, str]) -> ActivePython:
    """Return the Python of the active virtual environment, else of PATH."""
    found = shutil.which("python3", path=environ.get("PATH"))
    if environ.get("VIRTUAL_ENV"):
        # The environment may have been removed while it was active.
        found = shutil.which(str(Path(environ["VIRTUAL_ENV"], "bin", "python3"))) or found
    if found is None:
        return ActivePython()
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Python
            [found, "-I", "-c", _QUERY], capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except (OSError, subprocess.SubprocessError):
        return ActivePython()
    prefix, base, executable, *_ = [*answer.stdout.splitlines(), "", "", ""]
    # A link works only together with its target.
    paths = [path for text in (prefix, base) if text for path in (Path(text), Path(text).resolve())]
    directories = dict.fromkeys(path for path in paths if path.is_dir() and path != Path("/usr"))
    return ActivePython(str(Path(executable).parent) if executable else "", tuple(directories))
