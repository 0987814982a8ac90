"""The program `pumice`: what has to be in place before anything else is loaded, which takes a while.

Who presses Ctrl-C meanwhile, or while the program is about to end, wants it to end, not to see where it was. So this
module loads nothing that Python has not loaded already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import NoReturn

_BAD_INPUT = 2
_INTERRUPTED = 130


def main() -> int:
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    from pumice.cli.main import main as run

    return run()


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _end()
    if issubclass(kind, MemoryError):
        # Before there was room for anybody who could say more.
        os.write(2, b"pumice: there is not enough memory: see ulimit -v\n")
        os._exit(_BAD_INPUT)
    sys.__excepthook__(kind, error, trace)


def _unraisable(happened: sys.UnraisableHookArgs, /) -> None:
    """Such as an interrupt that came while Python was clearing away: then nobody else would hear of it."""
    if issubclass(happened.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(happened)


def _end() -> NoReturn:
    os._exit(_INTERRUPTED)
