"""What is recorded of the code of a run: `code.json` in its directory, which the process that submitted it writes once.

In a repository, files are what differs from the commit; without one, all that there are.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from pumice.model.text import plural
from pumice.store.files.atomic_files import replace_file

FILE: Final = "code.json"
MODIFIED: Final = "modified"
DELETED: Final = "deleted"
UNTRACKED: Final = "untracked"


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    path: str
    change: Literal["modified", "deleted", "untracked"] = UNTRACKED
    mode: int = 0o644
    size: int = 0
    sha256: str = ""  # empty: it was not read
    link: str = ""  # where it leads, if it is a symbolic link
    patch: str | None = None  # what makes it of the file in the commit
    content: bytes | None = None
    unsteady: bool = False  # it changed while it was read


class RunCode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    directory: str
    top: str = ""  # of the working tree of its repository
    commit: str = ""
    branch: str = ""
    files: tuple[RecordedFile, ...] = ()
    credentials: tuple[str, ...] = ()  # left out, because they look like credentials
    missing: tuple[str, ...] = ()  # what else is not recorded, and why
    notes: tuple[str, ...] = ()  # what is not known besides, such as a commit of a repository that is refused
    was_late: bool = False  # the time was up before all was read

    def __str__(self) -> str:
        """`commit 1234567890ab (main) and 2 changed files`."""
        if not self.commit:
            return f"{plural(len(self.files), 'file')}, no commit"
        branch = f" ({self.branch})" if self.branch else ""
        count = len(self.files)
        changed = f" and {plural(count, 'changed file')}" if count else ""
        return f"commit {self.commit[:12]}{branch}{changed}"


def read_code(run_directory: Path) -> RunCode | None:
    """Return what is recorded; None if nothing is, or if it is damaged."""
    with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
        return _DECODER.decode((run_directory / FILE).read_bytes())
    return None


def write_code(run_directory: Path, code: RunCode) -> None:
    """Raises OSError."""
    replace_file(run_directory / FILE, msgspec.json.encode(code) + b"\n", sync=False)


_DECODER: Final = msgspec.json.Decoder(RunCode)
