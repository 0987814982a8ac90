"""The program `pumice`: installs hooks before it loads anything else, because loading takes a while.

Ctrl-C during loading or at exit ends the program without a traceback. So this module imports only what Python itself
has already loaded.
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


def main() -> NoReturn:
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    from pumice.cli.main import main as run

    # Escape what terminals would obey in all that this program prints, tracebacks too, but not in pipes and files.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            from pumice.client.view.terminal import Terminal

            setattr(sys, name, Terminal.in_place_of(stream))
    code = run()
    from pumice.runtime.process_life import leave

    leave(code)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        _end()
    if issubclass(kind, MemoryError):
        # There may not be enough memory to load the code that prints a better message.
        os.write(2, b"pumice: there is not enough memory: see ulimit -v\n")
        os._exit(_BAD_INPUT)
    import traceback

    # Without the colours of newer Pythons, which a Terminal would escape.
    traceback.print_exception(kind, error, trace)


def _unraisable(args: sys.UnraisableHookArgs, /) -> None:
    """Handle Ctrl-C during finalization: Python reports it here and nowhere else."""
    if issubclass(args.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(args)


def _end() -> NoReturn:
    os._exit(_INTERRUPTED)
