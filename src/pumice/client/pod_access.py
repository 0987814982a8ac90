"""Commands, files and ports of pods, as the port to runs names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct, field

from pumice.store.run_errors import InvalidOption

_MOST_REPORTED: Final = 1000


class PodPath(Struct, frozen=True):
    pod: str  # TASK-INDEX
    path: str
    container: str = ""  # by default the first


class Skipped(Struct, frozen=True):
    """What was not copied, and why. It is an error, or something that is never copied, such as a device."""

    path: str
    why: str
    error: bool = False


class CopyReport(Struct):
    """What was not copied. There may be no end of it: the other side says what it likes."""

    skipped: list[Skipped] = field(default_factory=list)

    def add(self, path: str, why: str, error: bool) -> None:  # noqa: FBT001 - a callback
        if len(self.skipped) < _MOST_REPORTED:
            self.skipped.append(Skipped(path, why, error))


class PodPort(Struct, frozen=True):
    """A port of a pod, and the port of this machine that leads to it; 0 is any free one."""

    pod: str  # TASK-INDEX
    port: int
    local: int = 0


class PodCommand(Protocol):
    """A command that runs. `descriptors` are this side of its terminal, or of its input, output and error."""

    @property
    def descriptors(self) -> Sequence[int]: ...

    @property
    def has_ended(self) -> bool:
        """Whether its end is known without waiting."""

    def fileno(self) -> int:
        """Readable when the command ends."""

    def code(self) -> int:
        """Wait for the end; return the exit code, 128 + n after signal n. Raises RunError."""

    def close_stream(self, descriptor: int) -> None: ...

    def resize(self, size: tuple[int, int]) -> None:
        """Tell the programs on its terminal how large that is: lines and columns."""

    def close(self) -> None:
        """End the command."""


class LocalPort(Protocol):
    """A port of 127.0.0.1 that leads to a port of a pod; a connection goes to the pod of that name that runs then."""

    @property
    def local_port(self) -> int: ...

    async def close(self) -> None:
        """End all connections."""


class NotStartedError(InvalidOption):
    """A command could not be started, or files not copied. `kind` says why, `exit_code` as a shell would."""

    def __init__(self, message: str, kind: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.kind, self.exit_code = kind, exit_code
