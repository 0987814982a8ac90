"""Starts `pumice controller` processes quickly: one process has loaded all modules and forks a child for each.

The crash tests start and kill hundreds of controllers. Loading Python and all modules takes a second of CPU time, a
fork a hundredth of that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.meta.tree import ROOT

_SERVER = """
import json, os, signal, sys
from pumice.cli.main import main
import pumice.cli.cluster.controller, uvloop
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDWR)
        for stream, target in ((0, null), (1, log), (2, log)):
            os.dup2(target, stream)
        code = main(request["argv"])
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
# Standard input is closed when the tests end: kill the children, which are alone in this process group.
os.killpg(0, signal.SIGKILL)
"""


class ForkServer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: set[int] = set()
        environ = {"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in list(self._alive):
            self.kill(child)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def start(self, argv: Sequence[str], log: Path) -> int:
        """Start a process and return its id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"argv": list(argv), "log": str(log)}) + "\n")
            self._process.stdin.flush()
            child = int(self._process.stdout.readline())
            self._alive.add(child)
        return child

    def kill(self, child: int) -> None:
        with self._lock:
            if child in self._alive:
                self._alive.discard(child)
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    return
