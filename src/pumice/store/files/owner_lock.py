"""The lock of the one process that may write to a run.

The kernel drops it when the process ends, however it ends. A process passes it on by passing its descriptor, so that
it is never free in between. The file says which process holds it, for readers that want to send it a signal.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

from pumice.store.files.file_lock import lock_at_once, take_lock

FILE: Final = "owner.lock"
_LIMIT: Final = 4096


class Owner(msgspec.Struct, frozen=True):
    """`start` is the start time of the process in clock ticks since the machine's start; `boot` is the boot id."""

    pid: int = 0
    start: int = 0
    boot: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs: not another one with the same id."""
        return self.boot == boot_id() and self.start != 0 and self.start == start_time(self.pid)


_DECODER: Final = msgspec.json.Decoder(Owner)


class OwnerLock(Struct, frozen=True):
    descriptor: int

    @classmethod
    def take(cls, directory: Path) -> Self | None:
        """Return the lock, or None if another process holds it."""
        descriptor = take_lock(directory / FILE)
        return None if descriptor is None else cls(descriptor)

    def sign(self) -> None:
        """Write down that the calling process holds the lock."""
        owner = Owner(os.getpid(), start_time(os.getpid()), boot_id())
        content = msgspec.json.encode(owner) + b"\n"
        with suppress(OSError):
            # On a full disk the lock holds all the same.
            os.pwrite(self.descriptor, content, 0)
            os.ftruncate(self.descriptor, len(content))

    def release(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_owned(directory: Path) -> bool:
    """Return whether a process holds the lock."""
    with suppress(OSError), (directory / FILE).open("rb+", buffering=0) as file:
        return not lock_at_once(file)
    return False


def read_owner(directory: Path, name: str = FILE) -> Owner:
    """Return the process that last signed the lock."""
    try:
        with (directory / name).open("rb") as file:
            return _DECODER.decode(file.read(_LIMIT))
    except (OSError, msgspec.DecodeError):
        return Owner()


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks; 0 if there is none, or if it has ended and no parent noticed."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The name of the program, in parentheses, may contain anything.
    fields = text.rpartition(b")")[2].split()
    # In a container whose first process is not an init, ended processes stay as zombies.
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
