"""What can go wrong, as values that a message for the user can be made of."""

from __future__ import annotations


class SandboxError(Exception):
    """The sandbox as a whole cannot be had, or is gone."""


class ExhaustedError(SandboxError):
    """Something is used up that every kind of sandbox needs."""


class StartError(Exception):
    """A container could not be started: `kind` for programs to decide by, the text for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


NO_PROCESS = "no further process is allowed: see ulimit -u, and the pids of the control group that this runs in"

# The kinds of StartError.
COMMAND_NOT_FOUND = "command-not-found"
NOT_EXECUTABLE = "not-executable"
BAD_INTERPRETER = "bad-interpreter"
MOUNT = "mount"
IMAGE = "image"
DEVICE = "device"
WORKING_DIRECTORY = "working-directory"
USER = "user"
CPU = "cpu"
LIMITS = "limits"
GONE = "gone"
INTERNAL = "internal"
