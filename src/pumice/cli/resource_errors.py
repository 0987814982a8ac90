"""What Python raises where the machine, or a limit that was put on the program, has no more of something to give."""

from __future__ import annotations

from typing import Final

_MEMORY: Final = "there is not enough memory: see ulimit -v, and the memory of the control group that this runs in"
_THREADS: Final = (
    "no further process is allowed: see ulimit -u, ulimit -v, and the pids of the control group that this runs in"
)
_SIGNS: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (MemoryError, "", _MEMORY),
    (RuntimeError, "can't start new thread", _THREADS),
    (ImportError, "failed to map segment", _MEMORY),
    (ImportError, "cannot allocate memory", _MEMORY),
)


def shortage(error: BaseException) -> str:
    """What is missing, and where to look; empty if the error has another cause."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(shortage, error.exceptions)), "")
    return next((words for kind, sign, words in _SIGNS if isinstance(error, kind) and sign in str(error)), "")
