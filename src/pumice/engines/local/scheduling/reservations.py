"""Reservations of runs on this machine, so that no two runs count on the same CPUs or GPUs.

Each run has a small file in a directory that all runs of the user share, locked while the run lives. The kernel drops
the lock when the process ends, however it ends; a run that finds an unlocked file removes it. Reading and reserving
happen under a second lock, so that two runs that start at once do not both count on the same resources.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from msgspec import Struct, field

from pumice.model.quantity import Quantity
from pumice.store.files.file_lock import lock_at_once, locked
from pumice.store.files.state_directory import host_directory

_LOCK: Final = "turn"
_SUFFIX: Final = ".json"
_LIMIT: Final = 1 << 20


class Reservation(Struct, frozen=True):
    """What one run counts on. `amounts` include the number of GPUs; `gpus` are their ids."""

    amounts: Mapping[str, Quantity] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()


def reservations_directory(state: Path) -> Path:
    return host_directory(state) / "reservations"


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Keep other processes from reading or reserving meanwhile: all that decide about this machine take it."""
    with ExitStack() as stack:
        with suppress(FileNotFoundError):
            # The user may remove the state directory under a run.
            stack.enter_context(locked(directory / _LOCK))
        yield


def live_reservations(directory: Path) -> dict[str, Reservation]:
    """Return the reservations of all live runs, by the uid of the run. Call it in your turn."""
    found = {path.stem: _read_if_alive(path) for path in sorted(directory.glob(f"*{_SUFFIX}"))}
    return {uid: reservation for uid, reservation in found.items() if reservation is not None}


class Reservations:
    """The reservation of one run, and those of the others."""

    def __init__(self, directory: Path, run: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._own = directory / f"{run}{_SUFFIX}"
        with self.locked():
            self._file = os.open(self._own, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.locked():
            self._own.unlink(missing_ok=True)
            os.close(self._file)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other runs from reading or reserving meanwhile."""
        return turn(self._directory)

    def others(self) -> list[Reservation]:
        """Return the reservations of all other live runs. Call it while locked."""
        found = live_reservations(self._directory)
        return [reservation for uid, reservation in found.items() if uid != self._own.stem]

    def reserve(self, reservation: Reservation) -> None:
        """Replace this run's reservation. Call it while locked."""
        amounts = {name: str(amount) for name, amount in reservation.amounts.items()}
        data = json.dumps({"amounts": amounts, "gpus": reservation.gpus}).encode()
        # In this order, so that a full disk leaves the old content.
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))


def _read_if_alive(path: Path) -> Reservation | None:
    """Return the reservation of a live run; remove that of a dead one."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # Removed meanwhile, another user's, or not a regular file.
        return None
    try:
        if lock_at_once(file):
            path.unlink()
            return None
        plain = json.loads(os.pread(file, _LIMIT, 0))
        amounts = {name: Quantity.parse(text) for name, text in plain["amounts"].items()}
        return Reservation(amounts, tuple(map(str, plain["gpus"])))
    except (ValueError, TypeError, KeyError, AttributeError):
        # An empty file, of a run that has reserved nothing yet, or another version's format.
        return Reservation()
    finally:
        os.close(file)
