"""The exceptions of the sandbox."""

from __future__ import annotations

from pumice.model.pumice_error import PumiceError


class SandboxError(PumiceError):
    """The sandbox cannot be created, or has ended."""


class ExhaustedError(SandboxError):
    """A resource is used up that every kind of sandbox needs."""


class StartError(PumiceError):
    """A container cannot be started. Programs decide by `kind`, one of the constants below."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


NO_PROCESS = "no further process is allowed: see ulimit -u, and the pids of the control group that this runs in"

COMMAND_NOT_FOUND = "command-not-found"
NOT_EXECUTABLE = "not-executable"
BAD_INTERPRETER = "bad-interpreter"
TERMINAL = "terminal"
COPY = "copy"
COPY_DENIED = "copy-denied"
MOUNT = "mount"
IMAGE = "image"
DEVICE = "device"
WORKING_DIRECTORY = "working-directory"
USER = "user"
CPU = "cpu"
LIMITS = "limits"
GONE = "gone"
INTERNAL = "internal"
