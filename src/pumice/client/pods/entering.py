"""A command in a running pod, with streams or on a terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from pumice.client.liveness import not_responding, not_running, wake_owner
from pumice.engines.local.daemon.descriptor_channel import DescriptorChannel
from pumice.engines.local.daemon.line_protocol import PATIENCE
from pumice.engines.local.daemon.runtime_files import control_socket
from pumice.engines.local.run_errors import ConnectionFailed, InvalidOption
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.sandbox.sandbox_errors import BAD_INTERPRETER, COMMAND_NOT_FOUND, NOT_EXECUTABLE
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.engines.local.supervisor.entering import ENDED, FAILED

_POLL: Final = 0.1
# The exit codes of a shell for the same mistakes.
_CODES: Final = {COMMAND_NOT_FOUND: 127, NOT_EXECUTABLE: 126, BAD_INTERPRETER: 126}


class NotStartedError(InvalidOption):
    """The command could not be started, or the files not copied: there is none, or it cannot be used."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.exit_code = _CODES.get(kind, 1)


class EnteredCommand(Struct, frozen=True):
    """`descriptors` are this side of the terminal, or of standard input, output and error. `close` ends the command."""

    channel: DescriptorChannel
    descriptors: Sequence[int]

    def fileno(self) -> int:
        """Readable when the command ends."""
        return self.channel.socket.fileno()

    @property
    def has_ended(self) -> bool:
        """Whether the end of the command came together with the answer: it ended at once, or this process is slow."""
        return self.channel.has_message

    def code(self) -> int:
        """Wait for the end, and return the exit code (128 + n after signal n). Raises RunError."""
        while (message := self.channel.receive()) is not None:
            if ENDED in message:
                return int(message[ENDED])
            if FAILED in message:
                raise NotStartedError(*map(str, message[FAILED]))
        raise ConnectionFailed("the process of the run has ended")

    def take_descriptors(self) -> tuple[int, ...]:
        """Return the descriptors; the caller closes them."""
        self.channel.descriptors.clear()
        return tuple(self.descriptors)

    def close(self) -> None:
        self.channel.close()


def enter(
    run: StoredRun, pod: str, argv: Sequence[str], container: str = "", size: tuple[int, int] | None = None
) -> EnteredCommand:
    """Run a command in a pod; on a terminal if `size` has its lines and columns. Raises RunError."""
    fields: dict[str, Any] = {"argv": list(argv)}
    if size is not None:
        fields |= {"size": size, "term": os.environ.get("TERM", "")}
    return _enter(run, pod, container, fields)


def enter_to_copy(run: StoredRun, pod: str, container: str, copy: Copy) -> EnteredCommand:
    """Copy files as a stream: into a pod from its standard input, or to its standard output. Raises RunError."""
    return _enter(run, pod, container, {"copy": copy})


def _enter(run: StoredRun, pod: str, container: str, fields: dict[str, Any]) -> EnteredCommand:
    channel = _connected(run)
    try:
        answer = channel.call("enter", pod=pod, container=container, **fields)
        if FAILED in answer:
            raise NotStartedError(*map(str, answer[FAILED]))
    except BaseException:
        channel.close()
        raise
    return EnteredCommand(channel, tuple(channel.descriptors))


def _connected(run: StoredRun) -> DescriptorChannel:
    deadline = time.monotonic() + PATIENCE
    while True:
        if not run.is_owned:
            raise not_running(run)
        try:
            return DescriptorChannel.connect(control_socket(run.record.uid))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            # The socket is created a moment after the run begins, and again after a logout has removed it.
            wake_owner(run)
            if time.monotonic() > deadline:
                raise not_responding(run) from error
        time.sleep(_POLL)
