"""Commands that run a module of Pumice in a Python of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_LIBRARY = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
_SOURCES = str(Path(__file__).resolve().parents[4])


def python_start(module: str, *arguments: str) -> list[str]:
    """Return the command that calls `main()` of a module of `pumice.engines.local`.

    The interpreter is isolated: neither the environment, nor the working directory, nor site packages can change what
    it imports. What it imports is never searched for garbage, as in `process_life.loading`.
    """
    load = f"sys.path.insert(0, {_SOURCES!r}); from pumice.engines.local.{module} import main"
    code = f"import gc, sys; gc.disable(); {load}; gc.freeze(); gc.enable(); main()"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", code, *arguments]


def library_directory() -> str:
    """Return the directory of the libpython that this process has loaded; empty if its Python is linked to none.

    What the interpreter was built with does not say where it is: it may have been moved since.
    """
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    loaded = (fields[5] for line in lines if len(fields := line.split(maxsplit=5)) > 5)  # noqa: PLR2004 - the path
    return next((os.path.dirname(path) for path in loaded if os.path.basename(path).startswith(_LIBRARY)), "")


def loader_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the loader needs to start this Python with few variables: LD_LIBRARY_PATH may be all that finds it.

    Environment modules set it for a Python that is linked to libpython. Only the directory of libpython is kept.
    """
    directory = library_directory() if environ.get("LD_LIBRARY_PATH") else ""
    return {"LD_LIBRARY_PATH": directory} if directory else {}
