"""How every program of Pumice loads its modules, and how it ends: without work on objects that live as long as it does.

`benchmarks/startup.py` shows what that saves: about a sixth of a program that does little else.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def loading() -> Iterator[None]:
    """Import modules here. What exists by then is never searched for garbage.

    Nor is it after a fork, where that would copy the memory that both processes share.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def leave(code: int) -> NoReturn:
    """End this process as Python does, but for freeing each object."""
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public name
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
