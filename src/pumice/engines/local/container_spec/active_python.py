"""The Python that the user would get by typing `python3`: pods that the host serves as image have the same one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ASK: Final = "import sys; print(sys.prefix, sys.base_prefix, sys.executable, sep='\\n')"
_LONGEST_ANSWER: Final = 30.0


@dataclass(frozen=True, slots=True)
class ActivePython:
    """The directory that goes in front of PATH, and every directory that this Python lives in."""

    bin: str = ""
    directories: tuple[Path, ...] = ()


def active_python(environ: Mapping[str, str]) -> ActivePython:
    """Of an activated environment, else of the PATH. A link is only as good as its target, so both are named."""
    found = shutil.which("python3", path=environ.get("PATH"))
    if environ.get("VIRTUAL_ENV"):
        # An environment that was removed while it was active is none.
        found = shutil.which(str(Path(environ["VIRTUAL_ENV"], "bin", "python3"))) or found
    if found is None:
        return ActivePython()
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Python
            [found, "-I", "-c", _ASK], capture_output=True, text=True, check=False, timeout=_LONGEST_ANSWER
        )
    except (OSError, subprocess.SubprocessError):
        return ActivePython()
    prefix, base, executable, *_ = [*asked.stdout.splitlines(), "", "", ""]
    places = [place for text in (prefix, base) if text for place in (Path(text), Path(text).resolve())]
    directories = dict.fromkeys(place for place in places if place.is_dir() and place != Path("/usr"))
    return ActivePython(str(Path(executable).parent) if executable else "", tuple(directories))
