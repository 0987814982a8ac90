"""Starts the supervisors of runs, and notices when one ends. They do not end with the service."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pumice.engines.local.daemon.background import allowed_environment, start_process
from pumice.store.files.owner_lock import OwnerLock, read_owner
from pumice.store.files.run_store import SUPERVISOR_LOG, StoredRun

_MODULE = "pumice.engines.local.supervisor"


def supervisor_command(run: StoredRun, lock: int) -> list[str]:
    """Return the command of a supervisor: the Python that submitted the run, if it is still there."""
    python = run.record.python if os.access(run.record.python, os.X_OK) else sys.executable
    return [python, "-I", "-X", "utf8", "-m", _MODULE, str(run.directory), str(lock)]


@dataclass(slots=True)
class Supervisors:
    """`ended` is called with the uid of a run whose supervisor is gone, however it ended."""

    environ: Mapping[str, str]
    ended: Callable[[str], None]
    command: Callable[[StoredRun, int], list[str]] = supervisor_command
    _watched: dict[str, int] = field(default_factory=dict)  # descriptors of processes, by the uid of the run
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def watched(self) -> frozenset[str]:
        return frozenset(self._watched)

    def start(self, run: StoredRun, lock: OwnerLock) -> None:
        """Start a supervisor, which gets the lock, so that it is never free in between. Raises OSError."""
        environ = allowed_environment(self.environ)
        if run.record.gpus is not None:
            environ["CUDA_VISIBLE_DEVICES"] = ",".join(run.record.gpus)
        log = run.directory / SUPERVISOR_LOG
        child = start_process(self.command(run, lock.descriptor), environ, log, lock.descriptor)
        self._children[run.record.uid] = child
        self._watch(run.record.uid, child.pid, child)

    def adopt(self, run: StoredRun) -> None:
        """Watch a supervisor that another service started, or a client."""
        owner = read_owner(run.directory)
        if run.record.uid not in self._watched and owner.is_alive:
            self._watch(run.record.uid, owner.pid)

    def forget(self, uid: str) -> None:
        descriptor = self._watched.pop(uid, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for uid in list(self._watched):
            self.forget(uid)
        for child in self._children.values():
            # It goes on; the interpreter would warn that it was not waited for.
            child.returncode = child.poll() or 0
        self._children.clear()

    def _watch(self, uid: str, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        with suppress(OSError):
            # It may have ended already, which its free lock says.
            self._watched[uid] = descriptor = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(descriptor, self._fired, uid, descriptor, child)

    def _fired(self, uid: str, descriptor: int, child: subprocess.Popen[bytes] | None) -> None:
        """Handle the end of one process: a run that was suspended and resumed has another one by now."""
        if child is not None:
            child.wait()
        if self._watched.get(uid) != descriptor:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
            return
        self.forget(uid)
        self._children.pop(uid, None)
        self.ended(uid)
