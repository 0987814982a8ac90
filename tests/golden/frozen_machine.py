"""Makes this process one of a fixed machine at a fixed time. There is no way back, so only `collect` calls it."""

from __future__ import annotations

import ctypes
import datetime as dt
import gc
import os
import socket
import sys
from pathlib import Path
from typing import Any

from pumice.engines.local.scheduling import machine
from tests.golden.store_archive import HOST, NOW

CPUS = frozenset({0, 1})
MEMINFO = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"


def freeze(root: Path) -> None:
    """Stop the clock, and replace the name, the CPUs and the memory of the machine; `root` is an empty directory.

    Whatever module reads them, wherever the code moves.
    """
    # A class of C has no attribute that can be set, but a dictionary.
    methods: dict[str, Any] = gc.get_referents(dt.datetime.__dict__)[0]
    methods["now"] = classmethod(lambda _cls, tz=None: NOW.astimezone(tz) if tz else NOW.replace(tzinfo=None))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(dt.datetime))
    socket.gethostname = lambda: HOST
    os.sched_getaffinity = lambda _pid: set(CPUS)
    (root / "proc").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    real = machine.read_machine
    _replace(real, lambda **_environ: real(root, {"PATH": ""}))
    sys.addaudithook(_refuse)


def _refuse(event: str, _arguments: object) -> None:
    """Let no command start a process: the service would start the runs that wait."""
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        raise AssertionError(f"a golden starts no process: {event}")


def _replace(old: object, new: object) -> None:
    """Replace a function in all modules that have imported it."""
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if name.startswith("pumice") else ():
            if value is old:
                setattr(module, attribute, new)
