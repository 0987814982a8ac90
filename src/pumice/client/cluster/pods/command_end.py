"""How a command in a container ended, as the Status object says that comes in the last stream."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Struct

from pumice.client.pod_access import NotStartedError
from pumice.store.run_errors import ConnectionFailed

_EXIT_CODE: Final = "ExitCode"
_NOT_FOUND: Final = re.compile("executable file not found|no such file or directory", re.IGNORECASE)
# A runtime may name itself before, and quotes the identifier of the container there.
_NAMED: Final = re.compile(r'.*"([^"]+)": ')
_NOT_EXECUTABLE: Final = re.compile(r"permission denied|exec format error|is a directory", re.IGNORECASE)
# As a shell's.
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class _Cause(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Details(Struct, frozen=True):
    causes: list[_Cause] | None = None


class _Status(Struct, frozen=True):
    status: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class CommandEnd(Struct, frozen=True):
    """Its exit code, or why it could not be started."""

    exit_code: int
    failure: str = ""

    def code(self, what: str) -> int:
        """Raises NotStartedError, with the exit code of a shell, if the command is missing; else ConnectionFailed."""
        if not self.failure:
            return self.exit_code
        named = _NAMED.match(" ".join(self.failure.split()))
        program = named[1] if named else "the command"
        if _NOT_FOUND.search(self.failure):
            raise NotStartedError(f"{what}: {program}: not found in the container", "CommandNotFound", NOT_FOUND)
        if _NOT_EXECUTABLE.search(self.failure):
            raise NotStartedError(f"{what}: {program}: cannot be executed", "NotExecutable", NOT_EXECUTABLE)
        raise ConnectionFailed(f"{what}: {self.failure}")


def read_end(data: bytes) -> CommandEnd | None:
    """Return None for what is no Status: an older server sends nothing else, or an empty message."""
    try:
        status = msgspec.json.decode(data, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace").strip()
        return CommandEnd(1, text) if text else None
    if status.status == "Success":
        return CommandEnd(0)
    causes = status.details.causes if status.details is not None else None
    for cause in causes or ():
        if cause.reason == _EXIT_CODE and cause.message.isdecimal():
            return CommandEnd(int(cause.message))
    return CommandEnd(1, status.message or status.reason or "it failed")
