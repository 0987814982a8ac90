"""Where the service of a state directory keeps its lock, its log and its socket."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from pumice.engines.local.daemon.runtime_files import runtime_file
from pumice.store.files.file_lock import take_lock
from pumice.store.files.owner_lock import Owner, OwnerLock, read_owner
from pumice.store.files.state_directory import host_directory
from pumice.store.settings import account_home


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
        # HOME does not count: one user may have several at the same time, as with `sudo`, and one runtime directory.
        home, below = account_home(), ""
        if home is None or self.state != home / ".local" / "state" / "pumice":
            import hashlib  # noqa: PLC0415 - loads OpenSSL, and lists of the usual directory need none

            below = hashlib.sha256(os.fsencode(self.state.resolve())).hexdigest()[:12]
        return runtime_file(environ, "service.sock", below)

    def take_lock(self) -> int | None:
        """Return the descriptor of the lock of the one service; None if another process has it. Raises OSError."""
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = take_lock(self.lock)
        if descriptor is not None:
            OwnerLock(descriptor).sign()
        return descriptor

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
        return read_owner(self.lock.parent, self.lock.name)

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
