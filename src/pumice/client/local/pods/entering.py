"""A command in a running pod, with streams or on a terminal."""

from __future__ import annotations

import os
import subprocess
import termios
import time
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from pumice.client.backend import Exec
from pumice.client.local.connections import call
from pumice.client.local.liveness import not_responding, not_running, wake_owner
from pumice.client.pod_access import NotStartedError
from pumice.engines.local.daemon.connections import PATIENCE, greeted_wire
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.engines.local.rpc.wire import Wire, WireError, close_all
from pumice.engines.local.sandbox.sandbox_errors import BAD_INTERPRETER, COMMAND_NOT_FOUND, NOT_EXECUTABLE
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.engines.local.supervisor.entering import ENDED, FAILED
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import ConnectionFailed

_POLL: Final = 0.1
# The exit codes of a shell for the same mistakes.
_CODES: Final = {COMMAND_NOT_FOUND: 127, NOT_EXECUTABLE: 126, BAD_INTERPRETER: 126}


class EnteredCommand(Struct, frozen=True):
    """`descriptors` are this side of the terminal, or of standard input, output and error. `close` ends the command."""

    wire: Wire
    descriptors: list[int]

    def fileno(self) -> int:
        """Readable when the command ends."""
        return self.wire.socket.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the end of the command came together with the answer: it ended at once, or this process is slow."""
        return self.wire.has_message

    def code(self) -> int:
        """Wait for the end, and return the exit code (128 + n after signal n). Raises RunError."""
        while (found := self.wire.receive()) is not None:
            message, _ = found
            if ENDED in message:
                return int(message[ENDED])
            if FAILED in message:
                raise _not_started(*message[FAILED])
        raise ConnectionFailed("the process of the run has ended")

    def take_descriptors(self) -> tuple[int, ...]:
        """Return the descriptors; the caller closes them."""
        taken = tuple(self.descriptors)
        self.descriptors.clear()
        return taken

    def resize(self, size: tuple[int, int]) -> None:
        with suppress(OSError):
            termios.tcsetwinsize(self.descriptors[0], size)

    def close_stream(self, descriptor: int) -> None:
        os.close(descriptor)
        self.descriptors.remove(descriptor)

    def close(self) -> None:
        self.wire.close()
        close_all(self.descriptors)
        self.descriptors.clear()


async def run_command(run: StoredRun, command: Exec) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; return its code and its output. Raises RunError."""
    fields = {"pod": command.pod, "argv": command.argv, "container": command.container, "timeout": command.timeout}
    answer = await call(run, "exec", **fields)
    output = str(answer["output"]).encode("latin-1")  # any bytes
    return subprocess.CompletedProcess(list(command.argv), int(answer["code"]), output)


def enter(run: StoredRun, command: Exec) -> EnteredCommand:
    """Run a command in a pod; on a terminal if it has a size. Raises RunError."""
    on_terminal = {} if command.size is None else {"size": command.size, "term": os.environ.get("TERM", "")}
    return _enter(run, command.pod, command.container, {"argv": list(command.argv), **on_terminal})


def enter_to_copy(run: StoredRun, pod: str, container: str, copy: Copy) -> EnteredCommand:
    """Copy files as a stream: into a pod from its standard input, or to its standard output. Raises RunError."""
    return _enter(run, pod, container, {"copy": copy})


def _enter(run: StoredRun, pod: str, container: str, fields: dict[str, Any]) -> EnteredCommand:
    wire = _connected(run)
    try:
        answer, descriptors = wire.call("enter", pod=pod, container=container, **fields)
        if FAILED in answer:
            raise _not_started(*answer[FAILED])
    except BaseException as error:
        wire.close()
        if isinstance(error, ConnectionResetError | WireError):
            raise ConnectionFailed(str(error)) from error
        raise
    return EnteredCommand(wire, descriptors)


def _connected(run: StoredRun) -> Wire:
    deadline = time.monotonic() + PATIENCE
    while True:
        if not run.is_owned:
            raise not_running(run)
        try:
            return greeted_wire(control_socket(run.record.uid))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            # The socket is created a moment after the run begins, and again after a logout has removed it.
            wake_owner(run)
            if time.monotonic() > deadline:
                raise not_responding(run) from error
        time.sleep(_POLL)


def _not_started(kind: str, message: str) -> NotStartedError:
    return NotStartedError(message, kind, _CODES.get(kind, 1))
