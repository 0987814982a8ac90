"""Messages for the errors that Python raises when memory, threads or processes run out."""

from __future__ import annotations

from typing import Final

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


def shortage(error: BaseException) -> str:
    """Say which resource ran out and which limits to check; empty if the error has another cause."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(shortage, error.exceptions)), "")
    return next((text for kind, sign, text in _MESSAGES if isinstance(error, kind) and sign in str(error)), "")
