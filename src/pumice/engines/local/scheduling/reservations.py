"""What the runs on this machine have reserved of it, so that no two of them count on the same processors or GPUs.

Each run keeps a small file in a directory that all runs of the user share, locked for as long as the run lives. The
kernel drops the lock with the process, however that ends; whoever finds the file free clears it away. Who looks and
then reserves does so in his turn, so that two runs that start at once do not both find the same room.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pumice.model.quantity import Quantity
from pumice.model.resources import Usage

_TURN: Final = "turn"
_SUFFIX: Final = ".json"
_LONGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Reserved:
    """What one run counts on. The GPUs are also among the amounts; here they are by name."""

    amounts: Mapping[str, Quantity] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()


def reservations_directory(environ: Mapping[str, str], state: Path) -> Path:
    """Where a session has a directory of its own, that one: it is never on a network, and gone with the session."""
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or "")
    # A relative one counts as none, as its specification says.
    return runtime / "pumice" if runtime.is_absolute() and os.access(runtime, os.W_OK) else state / "reservations"


class Reservations:
    """The reservation of one run, and a look at those of the others."""

    def __init__(self, directory: Path, run: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._own = directory / f"{run}{_SUFFIX}"
        self._turn: int | None = None
        with self.turn():
            self._file = os.open(self._own, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.turn():
            self._own.unlink(missing_ok=True)
            os.close(self._file)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else looks or reserves meanwhile."""
        with suppress(FileNotFoundError):
            # A directory of a session goes with it, though the run may go on: then there is nobody to take turns with.
            self._turn = os.open(self._directory / _TURN, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if self._turn is not None:
                os.close(self._turn)
            self._turn = None

    def others(self) -> list[Reserved]:
        """What every other run that lives has reserved. To be asked in one's turn."""
        files = (path for path in sorted(self._directory.glob(f"*{_SUFFIX}")) if path != self._own)
        found = [_read_if_alive(path) for path in files]
        return [reserved for reserved in found if reserved is not None]

    def reserve(self, reserved: Reserved) -> None:
        """In the place of what was reserved before. To be done in one's turn."""
        amounts = {name: str(amount) for name, amount in reserved.amounts.items()}
        data = json.dumps({"amounts": amounts, "gpus": reserved.gpus}).encode()
        # In this order, so that a disk without room for the new words leaves the old ones.
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))


def total(reservations: list[Reserved]) -> Usage:
    amounts: Usage = {}
    for reserved in reservations:
        for name, amount in reserved.amounts.items():
            amounts[name] = amounts.get(name, Quantity()) + amount
    return amounts


def _read_if_alive(path: Path) -> Reserved | None:
    """None for one that nobody holds any more, which is removed."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # Gone since, another user's, or no file at all: nothing that could be counted on.
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parsed(os.pread(file, _LONGEST, 0))
    else:
        path.unlink()
        return None
    finally:
        os.close(file)


def _parsed(data: bytes) -> Reserved:
    """One that has reserved nothing yet has an empty file; one of another Pumice may have written something else."""
    try:
        plain = json.loads(data)
        amounts = {name: Quantity.parse(text) for name, text in plain["amounts"].items()}
        return Reserved(amounts, tuple(map(str, plain["gpus"])))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Reserved()
