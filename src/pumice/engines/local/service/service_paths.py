"""Where the service of a state directory keeps its lock, its log and its socket."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from pumice.engines.local.daemon.runtime_directory import runtime_file
from pumice.engines.local.runs.owner_lock import Owner, OwnerLock
from pumice.engines.local.state.settings import home_directory
from pumice.engines.local.state.state_directory import host_directory


class ServicePaths(Struct, frozen=True):
    state: Path

    @property
    def host(self) -> Path:
        """The state directory may be shared by several machines, as on NFS."""
        return host_directory(self.state)

    @property
    def lock(self) -> Path:
        return self.host / "locks" / "service.lock"

    @property
    def log(self) -> Path:
        return self.host / "service.log"

    def socket(self, environ: Mapping[str, str]) -> Path:
        """Return the path of the socket: each state directory has its own service. Raises RefusedError."""
        home = home_directory(environ)
        own = home is None or self.state != home / ".local" / "state" / "pumice"
        below = sha256(os.fsencode(self.state.resolve())).hexdigest()[:12] if own else ""
        return runtime_file(environ, "service.sock", below)

    def take_lock(self) -> int | None:
        """Return the descriptor of the lock of the one service; None if another process has it. Raises OSError."""
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        OwnerLock(descriptor).sign()
        return descriptor

    def wait_until_free(self) -> None:
        """Return when no service runs."""
        with suppress(FileNotFoundError):
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            finally:
                os.close(descriptor)

    def wake_holder(self) -> bool:
        """Make the service create its socket again if it is gone. False if no live process has signed the lock."""
        owner = self.holder()
        with suppress(OSError):
            if owner.is_alive:
                os.kill(owner.pid, signal.SIGUSR1)
                return True
        return False

    def holder(self) -> Owner:
        """Return the process that last signed the lock."""
        try:
            return msgspec.json.decode(self.lock.read_bytes(), type=Owner)
        except (OSError, msgspec.DecodeError):
            return Owner()

    @property
    def notices(self) -> Path:
        return self.host / "notices"

    def add_notice(self, line: str) -> None:
        """Leave a line for the next command to print: what happened meanwhile."""
        with suppress(OSError), self.notices.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def take_notices(self) -> list[str]:
        """Return the lines that no command has printed yet, once."""
        mine = self.notices.with_name(f"notices.{os.getpid()}")
        try:
            self.notices.rename(mine)
            lines = mine.read_text(encoding="utf-8", errors="replace").splitlines()
            mine.unlink()
        except OSError:
            return []
        return lines
