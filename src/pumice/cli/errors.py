"""What the command line says where it cannot go on: input that it refuses, and resources that ran out."""

from __future__ import annotations

import sys
from typing import Final

BAD_INPUT: Final = 2
_MEMORY: Final = "there is not enough memory: see ulimit -v, and the memory of the control group that this runs in"
_THREADS: Final = (
    "no further process is allowed: see ulimit -u, ulimit -v, and the pids of the control group that this runs in"
)
_MESSAGES: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (MemoryError, "", _MEMORY),
    (RuntimeError, "can't start new thread", _THREADS),
    (ImportError, "failed to map segment", _MEMORY),
    (ImportError, "cannot allocate memory", _MEMORY),
)


def refuse(message: object, hint: str = "") -> int:
    """Print why input is not accepted, or cannot be used; return the exit code of bad input."""
    print(message, *([f"  hint: {hint}"] if hint else []), sep="\n", file=sys.stderr)
    return BAD_INPUT


def print_error(error: Exception) -> None:
    """Print an error, with options as flags."""
    from pumice.model.problem import FLAGS
    from pumice.store.run_errors import RunError

    print(error.text(FLAGS) if isinstance(error, RunError) else error, file=sys.stderr)


def agrees(question: str) -> bool:
    """Ask a person, who types y or yes; anything else is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def shortage(error: BaseException) -> str:
    """Say which resource ran out and which limits to check; empty if the error has another cause."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(shortage, error.exceptions)), "")
    return next((text for kind, sign, text in _MESSAGES if isinstance(error, kind) and sign in str(error)), "")
