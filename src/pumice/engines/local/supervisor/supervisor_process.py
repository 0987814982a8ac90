"""Starts the process of a run that a client holds by a connection: a fork of the client, or a Python of its own.

Request, documents and secrets travel over the connection, never as arguments.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NoReturn, Protocol

import msgspec
from msgspec import Struct

from pumice.engines.local.sandbox.sandbox_errors import NO_PROCESS
from pumice.runtime.process_life import loading
from pumice.store.run_errors import Unsupported

_MODULE: Final = "pumice.engines.local.supervisor"
_HIGHEST_DESCRIPTOR: Final = 1 << 16
LEASED: Final = "--leased"


class Child(Protocol):
    """The methods of `subprocess.Popen` that are needed."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def kill(self) -> None: ...


class SupervisorProcess(Struct):
    """A process that waits for a request on its end of the connection. It ends when this end is closed."""

    child: Child
    lease: socket.socket

    def discard(self) -> None:
        """End a process that has nothing to do, and wait for its end."""
        self.lease.close()
        self.child.kill()
        self.child.wait()


class _Forked(Struct):
    pid: int

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        return self._wait(0) or 0

    def _wait(self, flags: int) -> int | None:
        try:
            found, status = os.waitpid(self.pid, flags)
        except ChildProcessError:
            # Where the caller ignores SIGCHLD, the kernel forgets how it ended.
            return 0
        return os.waitstatus_to_exitcode(status) if found else None

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def forked_supervisor() -> SupervisorProcess:
    """Fork this process, before any thread or event loop starts: all loaded modules are there. Raises Unsupported."""
    with loading():
        # What both processes use is loaded once. The client then has less to do while the other loads the engine.
        import asyncio  # noqa: F401, PLC0415 - see above
        import concurrent.futures.thread  # noqa: F401, PLC0415 - see above

        import pumice.engines.local.daemon.connections  # noqa: PLC0415 - see above
        import pumice.engines.local.preparation.default_settings  # noqa: PLC0415 - see above
        import pumice.engines.local.runs  # noqa: PLC0415 - see above
        import pumice.engines.local.supervisor.request_codec  # noqa: PLC0415 - see above
        import pumice.runtime.offline_context  # noqa: PLC0415 - see above
        import pumice.store.code.recording  # noqa: PLC0415 - see above
        import pumice.store.run_request  # noqa: F401, PLC0415 - see above
    ours, theirs = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        pid = os.fork()
    except OSError as error:
        raise Unsupported(NO_PROCESS if isinstance(error, BlockingIOError) else str(error)) from error
    if pid == 0:
        _become_supervisor(theirs)
    theirs.close()
    return SupervisorProcess(_Forked(pid), ours)


def spawned_supervisor(environ: Mapping[str, str] = os.environ) -> SupervisorProcess:
    """Start another Python, for programs that may have threads. Raises OSError."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-X", "utf8", "-m", _MODULE, LEASED, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            start_new_session=True,
            pass_fds=(theirs.fileno(),),
        )
    return SupervisorProcess(child, ours)


def _become_supervisor(lease: socket.socket) -> NoReturn:
    """Leave everything of the client but the connection: its terminal, its files, its signals."""
    code = 1
    try:
        os.setsid()
        # First: if the caller closed a standard stream, the lease may have its number.
        os.dup2(lease.fileno(), 3)
        lease.detach()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        os.closerange(4, _HIGHEST_DESCRIPTOR)
        os.set_inheritable(3, False)
        with loading():
            from pumice.engines.local.supervisor.leased_process import main  # noqa: PLC0415 - the client needs none
        code = main(3)
    except BaseException as error:  # noqa: BLE001 - the client reports it
        from pumice.engines.local.daemon.connections import encode_error  # noqa: PLC0415 - as above

        os.write(3, msgspec.json.encode({"error": encode_error(error)}) + b"\n")
    finally:
        # Neither the buffers nor the exit handlers of the client are ours.
        os._exit(code)
