"""The directories of runs: created, found and listed.

    runs/NAMESPACE/NAME/N/    one run; NAME/next keeps numbers from being used again
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
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.engines.local.run_errors import InvalidOption, NoSuchRun, StoreError
from pumice.engines.local.runs.atomic_files import replace_file, sync_directory
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.journal import status_from_journal
from pumice.engines.local.runs.owner_lock import OwnerLock, is_owned
from pumice.engines.local.runs.run_names import RunName, parse_run
from pumice.engines.local.runs.run_record import DETACHED, FORMAT, RunRecord, RunStatus
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.engines.local.state.state_directory import host_name, make_private
from pumice.model.job import Job

RECORD: Final = "run.json"
STATUS: Final = "status.json"
SUPERVISOR_LOG: Final = "supervisor.log"  # the output of the process of a detached run
OLD_JOB: Final = "job.json"  # of an earlier Pumice
_NEXT: Final = "next"
_PRIVATE: Final = 0o700
_TRIES: Final = 1000
_SMALL: Final = 1 << 16
_RECORD_DECODER: Final = msgspec.json.Decoder(RunRecord)
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
            return _STATUS_DECODER.decode(_content(f"{self.directory}/{STATUS}"))
        except FileNotFoundError:
            return status_from_journal(self.directory)
        except (OSError, msgspec.DecodeError, ValueError):
            # The journal has it all.
            from pumice.engines.local.runs.outcome_status import journal_outcome  # noqa: PLC0415 - only if damaged

            return journal_outcome(self.directory, self.record) or status_from_journal(self.directory)

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
    def is_of_this_host(self) -> bool:
        return self.record.host == host_name()

    @property
    def is_newer(self) -> bool:
        """Whether a newer Pumice has written it: it is listed, and never changed."""
        return self.record.format > FORMAT

    @property
    def newer_text(self) -> str:
        return ", ".join(filter(None, ("written by a newer Pumice", self.record.version)))


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

    def reserve(self, namespace: str, name: str) -> Path:
        """Create the empty directory of the next run of a name. Raises OSError."""
        ours = (self.state, self.runs, self.active, self.trash, self.runs / namespace, self.runs / namespace / name)
        for directory in ours:
            if not directory.is_dir():
                make_private(directory)
                # Otherwise a power failure may remove the directory, with files in it that were synced.
                sync_directory(directory.parent)
        return self._allocate(ours[-1])

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
        """Remove a run that has no owner. A crash in between leaves its files in the trash."""
        make_private(self.trash)
        target = self.trash / run.record.uid
        self.finish(run)
        run.directory.rename(target)
        remove_tree(target)
        with suppress(OSError):
            target.rmdir()

    def active_runs(self) -> list[StoredRun]:
        """Return the queued, suspended and running runs, the oldest first."""
        found = []
        for link in _entries(self.active):
            run = self.load(Path(os.path.realpath(link.path))) if link.is_symlink() else None
            if run is not None:
                found.append(run)
        return sorted(found, key=lambda run: (run.record.created, run.record.uid))

    def all_runs(self, namespace: str = "", name: str = "", since: float = 0.0) -> Iterator[StoredRun]:
        """Yield the stored runs of a namespace, or of all; of one name, or of all; those that changed since a time."""
        for directory in self.directories(namespace, name):
            if since and _changed(f"{directory}/{STATUS}") < since:
                continue
            run = self.load(directory)
            if run is not None:
                yield run

    def directories(self, namespace: str = "", name: str = "") -> Iterator[Path]:
        """Yield the directories of runs, the newest number of each name first."""
        for space in [namespace] if namespace else sorted(each.name for each in _entries(self.runs) if each.is_dir()):
            names = [name] if name else sorted(each.name for each in _entries(self.runs / space) if each.is_dir())
            for one in names:
                numbers = [each.name for each in _entries(self.runs / space / one) if each.name.isdecimal()]
                yield from (self.runs / space / one / each for each in sorted(numbers, key=int, reverse=True))

    def load(self, directory: Path) -> StoredRun | None:
        """Return a run; None if there is none in the directory, or if it is damaged."""
        try:
            content = _content(f"{directory}/{RECORD}")
            record = _RECORD_DECODER.decode(content)
        except msgspec.ValidationError:
            found = _newer_record(directory, content)
            return None if found is None else StoredRun(directory, found)
        except (OSError, msgspec.DecodeError, ValueError):
            return None
        return StoredRun(directory, record)

    def has_old_runs(self) -> bool:
        """Return whether there are runs of an earlier Pumice, which had no numbers."""
        return any(Path(each.path, OLD_JOB).is_file() for each in _entries(self.runs))

    def find(self, text: str, namespace: str = "") -> StoredRun:
        """Return the run that a user named. Raises NoSuchRun, and InvalidOption if several runs have the name."""
        name = parse_run(text)
        found = self._find(name, namespace) if name is not None else []
        if len(found) > 1:
            choices = ", ".join(f"{run.ref} in namespace {run.record.namespace}" for run in found)
            message, python_hint = f"{text}: several runs have this name: {choices}", "use Client(namespace=...)"
            raise InvalidOption(message, "choose one with -n NAMESPACE", python_hint=python_hint)
        if not found:
            if name is not None and (damaged := self._damaged(name, namespace)) is not None:
                hint = f"its files are in {damaged}; remove them if you do not need them"
                raise StoreError(f"{text}: {RECORD} cannot be read", hint)
            python_hint = "pumice.runs(all=True) lists all runs"
            raise NoSuchRun(f"{text}: no such run", "`pumice ps -a` lists all runs", python_hint=python_hint)
        if found[0].is_newer:
            raise StoreError(f"{text}: {found[0].newer_text}", "pip install --upgrade pumice")
        return found[0]

    def _find(self, name: RunName, namespace: str) -> list[StoredRun]:
        if name.is_last:
            newest = max(self.all_runs(namespace), key=lambda run: run.record.created, default=None)
            return [] if newest is None else [newest]
        spaces = [namespace] if namespace else sorted(each.name for each in _entries(self.runs) if each.is_dir())
        found = []
        for space in spaces:
            if name.number:
                run = self.load(self.runs / space / name.name / str(name.number))
            else:
                run = next(self.all_runs(space, name.name), None)
            if run is not None:
                found.append(run)
        if not found and name.may_be_uid:
            found = [run for run in self.all_runs(namespace) if run.record.uid.startswith(name.name)]
        return found

    def _damaged(self, name: RunName, namespace: str) -> Path | None:
        """Return the directory of a run that has this name and cannot be read; one that is being stored is empty."""
        for directory in self.directories(namespace, name.name) if name.name else ():
            if name.number in (0, int(directory.name)) and os.path.lexists(directory / RECORD):
                return directory
        return None

    def _allocate(self, directory: Path) -> Path:
        taken = [int(each.name) for each in _entries(directory) if each.name.isdecimal()]
        with suppress(OSError, ValueError):
            taken.append(int((directory / _NEXT).read_text(encoding="ascii")) - 1)
        first = max(taken, default=0) + 1
        for number in range(first, first + _TRIES):
            with suppress(FileExistsError):
                (directory / str(number)).mkdir(mode=_PRIVATE)
                return directory / str(number)
        raise FileExistsError(errno.EEXIST, "no free number", str(directory))


def _newer_record(directory: Path, content: bytes) -> RunRecord | None:
    """Return what can be listed of a run that a newer Pumice has written; None for a damaged one."""
    with suppress(msgspec.DecodeError, OSError, OverflowError, TypeError, ValueError):
        found = msgspec.json.decode(content, type=dict[str, Any])
        if int(found.get("format", FORMAT)) > FORMAT:
            return RunRecord(
                uid=str(found.get("uid") or ""),
                namespace=directory.parent.parent.name,
                name=directory.parent.name,
                number=int(directory.name),
                host=str(found.get("host") or ""),
                boot="",
                created=dt.datetime.fromtimestamp(directory.stat().st_mtime, dt.UTC),
                job={},
                format=int(found["format"]),
                version=str(found.get("version") or ""),
            )
    return None


def _changed(path: str) -> float:
    """Return when a file changed; a run without a status has just begun."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 - a Path for each of thousands takes longer than the call
    except OSError:
        return float("inf")


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


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return [each for each in found if not each.name.startswith(".")]
    except OSError:
        return []
