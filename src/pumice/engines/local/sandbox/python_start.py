"""Commands that run a module of Pumice in a Python of its own."""

from __future__ import annotations

import sys
from pathlib import Path

_SOURCES = str(Path(__file__).resolve().parents[4])


def python_start(module: str, *arguments: str) -> list[str]:
    """Return the command that calls `main()` of a module of `pumice.engines.local`.

    The interpreter is isolated: neither the environment, nor the working directory, nor site packages can change what
    it imports.
    """
    code = f"import sys; sys.path.insert(0, {_SOURCES!r}); from pumice.engines.local.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", code, *arguments]
