"""The directories of runs: created, found and listed.

    runs/NAMESPACE/NAME/N/    one run; NAME/next keeps numbers from being used again
    runs/.../N@file/          a run that was opened from an archive: it is read and removed, and nothing else
    active/UID                a link to each run that is queued, suspended or running
    trash/                    runs that are being removed

A run appears by the rename of a complete directory, after its link in `active/`, and leaves by a rename into `trash/`.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from pumice.model.job import Job
from pumice.model.problem import Command, Option
from pumice.store.files.atomic_files import replace_file, sync_directory
from pumice.store.files.owner_lock import OwnerLock, is_owned
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.state_directory import host_name, make_private
from pumice.store.job_source import JobSource
from pumice.store.run_errors import InvalidOption, NoSuchRun, StoreError
from pumice.store.run_names import OPENED_SUFFIX, RunName, parse_run
from pumice.store.run_record import DETACHED, FORMAT, OPENED, RunRecord, RunStatus

if TYPE_CHECKING:
    from pumice.store.history.stored_history import StoredHistory

RECORD: Final = "run.json"
STATUS: Final = "status.json"
OTHER_FORMAT: Final = "written by another version of Pumice"
SUPERVISOR_LOG: Final = "supervisor.log"  # the output of the process of a detached run
_NEXT: Final = "next"
_PRIVATE: Final = 0o700
_TRIES: Final = 1000
_SMALL: Final = 1 << 16


class _StoredRecord(RunRecord, frozen=True):
    """A record as it is read: one without a number is of an earlier format."""

    format: int = 2


_RECORD_DECODER: Final = msgspec.json.Decoder(_StoredRecord)
_STATUS_DECODER: Final = msgspec.json.Decoder(RunStatus)


class StoredRun(Struct, frozen=True):
    """A run in the store. `record` never changes; everything else is read when it is asked for."""

    directory: Path
    record: RunRecord

    @property
    def ref(self) -> str:
        return self.record.ref

    def status(self) -> RunStatus:
        try:
            return read_status(self.directory)
        except (OSError, msgspec.DecodeError, ValueError):
            # A power failure left it empty, or it was never written. The journal has it all.
            return self.history().status

    def history(self) -> StoredHistory:
        """Return what happened in it, from its journal."""
        from pumice.store.history.stored_history import read_history  # noqa: PLC0415 - lists need no history

        return read_history(self.record, self.directory)

    def write_status(self, status: RunStatus) -> None:
        """Replace the status. The owner lock of the run is held. Raises OSError."""
        replace_file(self.directory / STATUS, msgspec.json.encode(status) + b"\n")

    @property
    def source(self) -> JobSource:
        """The file of its Job, with the lines of the fields."""
        return JobSource.of(self.record.file, self.record.marks)

    def written_job(self) -> Job:
        """Return its Job as it was written. Raises StoreError."""
        try:
            return msgspec.convert(self.record.job, Job, strict=False)
        except msgspec.ValidationError as error:
            hint = f"its files are in {self.directory}; remove them if you do not need them"
            raise StoreError(f"{self.ref}: {RECORD} is damaged: {error}", hint) from error

    @property
    def exists(self) -> bool:
        """Whether it has not been removed."""
        return (self.directory / RECORD).is_file()

    @property
    def is_owned(self) -> bool:
        return is_owned(self.directory)

    @property
    def is_opened(self) -> bool:
        """Whether it was opened from an archive."""
        return self.record.mode == OPENED

    @property
    def is_of_this_host(self) -> bool:
        return self.record.host == host_name() and not self.is_opened

    @property
    def elsewhere(self) -> str:
        """Return why it cannot be changed here; empty if it can."""
        if self.is_opened:
            return "it was opened from a file"
        return "" if self.is_of_this_host else f"it belongs to {self.record.host}"

    @property
    def has_our_format(self) -> bool:
        """Whether this version can read it. One of another format is listed, and never changed."""
        return self.record.format == FORMAT

    @property
    def format_text(self) -> str:
        return ", ".join(filter(None, (OTHER_FORMAT, self.record.version)))

    def check_format(self, name: str) -> None:
        """Raises StoreError if this version cannot read it; `name` is what the user calls it."""
        if not self.has_our_format:
            raise StoreError(f"{name}: {self.format_text}", "use that version to see it")


class OwnedRun(Struct, frozen=True):
    """A run that this process may write to."""

    run: StoredRun
    lock: OwnerLock


class RunStore(Struct, frozen=True):
    state: Path

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def active(self) -> Path:
        return self.state / "active"

    @property
    def trash(self) -> Path:
        return self.state / "trash"

    def directory(self, namespace: str, name: str, number: int, *, opened: bool = False) -> Path:
        """Return where a run is stored."""
        return self.runs / namespace / name / (f"{number}{OPENED_SUFFIX}" if opened else str(number))

    def reserve(self, namespace: str, name: str) -> Path:
        """Create the empty directory of the next run of a name. Raises OSError."""
        directory = self._prepare(namespace, name)
        taken = [int(each.name) for each in _entries(directory) if each.name.isdecimal()]
        with suppress(OSError, ValueError):
            taken.append(int((directory / _NEXT).read_text(encoding="ascii")) - 1)
        first = max(taken, default=0) + 1
        for number in range(first, first + _TRIES):
            with suppress(FileExistsError):
                (directory / str(number)).mkdir(mode=_PRIVATE)
                return directory / str(number)
        raise FileExistsError(errno.EEXIST, "no free number", str(directory))

    def _prepare(self, namespace: str, name: str) -> Path:
        """Create the directory of a name, and those above it. Raises OSError."""
        ours = (self.state, self.runs, self.active, self.trash, self.runs / namespace, self.runs / namespace / name)
        for directory in ours:
            if not directory.is_dir():
                make_private(directory)
                # Otherwise a power failure may remove the directory, with files in it that were synced.
                sync_directory(directory.parent)
        return ours[-1]

    def add_opened(self, staged: Path, record: RunRecord) -> StoredRun:
        """Store a run whose files were taken out of an archive. Raises OSError."""
        replace_file(staged / RECORD, msgspec.json.encode(record) + b"\n")
        above = self._prepare(record.namespace, record.name)
        directory = self.directory(record.namespace, record.name, record.number, opened=True)
        staged.rename(directory)
        sync_directory(above)
        return StoredRun(directory, record)

    def opened_runs(self, namespace: str = "") -> Iterator[StoredRun]:
        """Yield the runs that were opened from archives."""
        for directory in sorted(self.runs.glob(f"{namespace or '*'}/*/*{OPENED_SUFFIX}")):
            if (run := self.load(directory)) is not None:
                yield run

    def give_up(self, directory: Path) -> None:
        """Remove a reserved directory that no run uses."""
        with suppress(OSError):
            for each in (directory, directory.parent, directory.parent.parent):
                each.rmdir()

    def create(self, directory: Path, record: RunRecord) -> OwnedRun:
        """Store a new run in a reserved directory, and own it. Raises OSError."""
        staged = directory.with_name(f".{directory.name}.{record.uid}")
        staged.mkdir(mode=_PRIVATE)
        lock = None
        try:
            replace_file(directory.with_name(_NEXT), f"{record.number + 1}\n".encode(), sync=False)
            replace_file(staged / RECORD, msgspec.json.encode(record) + b"\n")
            lock = OwnerLock.take(staged)
            if lock is None:
                raise BlockingIOError(errno.EAGAIN, "locked by another process", str(staged))
            lock.sign()
            (self.active / record.uid).symlink_to(os.path.relpath(directory, self.active))
            sync_directory(self.active)
            # Replaces the empty directory.
            staged.rename(directory)
            sync_directory(directory.parent)
        except OSError:
            if staged.exists():
                (self.active / record.uid).unlink(missing_ok=True)
                shutil.rmtree(staged, ignore_errors=True)
                self.give_up(directory)
            if lock is not None:
                lock.release()
            raise
        return OwnedRun(StoredRun(directory, record), lock)

    def detach(self, run: StoredRun) -> StoredRun:
        """Record that a run does not end with its client. Its owner lock is held. Raises OSError."""
        record = msgspec.structs.replace(run.record, mode=DETACHED)
        if record != run.record:
            replace_file(run.directory / RECORD, msgspec.json.encode(record) + b"\n")
        return StoredRun(run.directory, record)

    def finish(self, run: StoredRun) -> None:
        """Take a run out of the active ones."""
        (self.active / run.record.uid).unlink(missing_ok=True)

    def remove(self, run: StoredRun) -> None:
        """Remove a run that has no owner. A crash in between leaves its files in the trash. Raises StoreError."""
        run.check_format(run.ref)
        make_private(self.trash)
        target = self.trash / run.record.uid
        self.finish(run)
        run.directory.rename(target)
        remove_tree(target)
        with suppress(OSError):
            target.rmdir()

    def active_runs(self) -> list[StoredRun]:
        """Return the queued, suspended and running runs, the oldest first."""
        targets = (Path(os.path.realpath(link.path)) for link in _entries(self.active) if link.is_symlink())
        found = [run for target in targets if (run := self.load(target)) is not None]
        return sorted(found, key=lambda run: (run.record.created, run.record.uid))

    def all_runs(self, namespace: str = "", name: str = "", since: float = 0.0) -> Iterator[StoredRun]:
        """Yield the stored runs of a namespace, or of all; of one name, or of all; those that changed since a time."""
        for directory in self._paths(namespace, name):
            with suppress(OSError):  # a run without a status has just begun
                # A Path for each of thousands takes longer than the call.
                if since and os.stat(f"{directory}/{STATUS}").st_mtime < since:  # noqa: PTH116
                    continue
            if (run := self.load(Path(directory))) is not None:
                yield run

    def directories(self, namespace: str = "", name: str = "") -> Iterator[Path]:
        """Yield the directories of runs, the newest number of each name first."""
        return map(Path, self._paths(namespace, name))

    def _paths(self, namespace: str, name: str) -> Iterator[str]:
        # Text: to make a Path of each of 10,000 takes longer than everything else in a list of runs.
        runs = str(self.runs)
        for space in [namespace] if namespace else sorted(each.name for each in _entries(runs) if each.is_dir()):
            for one in [name] if name else sorted(each.name for each in _entries(f"{runs}/{space}") if each.is_dir()):
                above = f"{runs}/{space}/{one}"
                numbers = [each.name for each in _entries(above) if each.name.isdecimal()]
                yield from (f"{above}/{each}" for each in sorted(numbers, key=int, reverse=True))

    def load(self, directory: Path) -> StoredRun | None:
        """Return a run; None if there is none in the directory, or if it is damaged."""
        try:
            content = _content(f"{directory}/{RECORD}")
            record = _RECORD_DECODER.decode(content)
        except msgspec.ValidationError:
            found = _other_format(directory, content)
            return None if found is None else StoredRun(directory, found)
        except (OSError, msgspec.DecodeError, ValueError):
            return None
        return StoredRun(directory, record)

    def find(self, text: str, namespace: str = "") -> StoredRun:
        """Return the run that a user named. Raises NoSuchRun, and InvalidOption if several runs have the name."""
        name = parse_run(text)
        found = self._find(name, namespace) if name is not None else []
        if len(found) > 1:
            choices = ", ".join(f"{run.ref} in namespace {run.record.namespace}" for run in found)
            choose = "choose one with ", Option("namespace", "NAMESPACE")
            raise InvalidOption(f"{text}: several runs have this name: {choices}", choose)
        if not found:
            if name is not None and (damaged := self._damaged(name, namespace)) is not None:
                hint = f"its files are in {damaged}; remove them if you do not need them"
                raise StoreError(f"{text}: {RECORD} cannot be read", hint)
            every = Command("ps", options=(Option("all", True),))
            raise NoSuchRun(f"{text}: no such run", ("`", every, "` lists all runs"))
        found[0].check_format(text)
        return found[0]

    def _find(self, name: RunName, namespace: str) -> list[StoredRun]:
        if name.is_last:
            newest = max(self.all_runs(namespace), key=lambda run: run.record.created, default=None)
            return [] if newest is None else [newest]
        spaces = [namespace] if namespace else sorted(each.name for each in _entries(self.runs) if each.is_dir())
        found = []
        for space in spaces:
            if name.number:
                run = self.load(self.directory(space, name.name, name.number, opened=name.opened))
            else:
                run = next(self.all_runs(space, name.name), None)
            if run is not None:
                found.append(run)
        if not found and name.may_be_uid:
            found = [run for run in self.all_runs(namespace) if run.record.uid.startswith(name.name)]
        return found

    def _damaged(self, name: RunName, namespace: str) -> Path | None:
        """Return the directory of a run that has this name and cannot be read; one that is being stored is empty."""
        for directory in self.directories(namespace, name.name) if name.name and not name.opened else ():
            if name.number in (0, int(directory.name)) and os.path.lexists(directory / RECORD):
                return directory
        return None


def read_status(directory: Path | str) -> RunStatus:
    """Return the newest status. Raises OSError, ValueError (also as msgspec.DecodeError)."""
    return _STATUS_DECODER.decode(_content(f"{directory}/{STATUS}"))


def _other_format(directory: Path, content: bytes) -> RunRecord | None:
    """Return what can be listed of a run that another version of Pumice has written; None for a damaged one."""
    with suppress(msgspec.DecodeError, OSError, OverflowError, TypeError, ValueError):
        found = msgspec.json.decode(content, type=dict[str, Any])
        if int(found.get("format", 2)) != FORMAT:
            return RunRecord(
                uid=str(found.get("uid") or ""),
                namespace=directory.parent.parent.name,
                name=directory.parent.name,
                number=int(directory.name),
                host=str(found.get("host") or ""),
                boot="",
                created=dt.datetime.fromtimestamp(directory.stat().st_mtime, dt.UTC),
                job={},
                format=int(found.get("format", 2)),
                version=str(found.get("version") or ""),
            )
    return None


def _content(path: str) -> bytes:
    """Return the content of a file. A list of runs reads thousands, so it takes a few system calls only."""
    # Without O_NONBLOCK, a pipe of that name would stop every list.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        content = os.read(descriptor, _SMALL)
        while len(content) % _SMALL == 0 and (more := os.read(descriptor, _SMALL)):
            content += more
        return content
    finally:
        os.close(descriptor)


def _entries(directory: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return [each for each in found if not each.name.startswith(".")]
    except OSError:
        return []
