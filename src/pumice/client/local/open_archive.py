"""Opens an archive of `export`: checks it, and stores its run to be read. An archive is untrusted input.

Files get names and modes of this module. Nothing outside of a new directory is written, and that is removed unless all
is well. What is read, also of headers, is bounded.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import astuple

from pumice.client.backend import OpenedRun
from pumice.client.local.reasons import why_run
from pumice.client.local.run_reader import ref_of, summary
from pumice.model.problem import Command, Position, Problem
from pumice.model.text import printable
from pumice.store.files.owner_lock import FILE as OWNER_LOCK
from pumice.store.files.remove_tree import remove_tree
from pumice.store.files.run_directory import KEPT, SCRATCH
from pumice.store.files.run_store import OTHER_FORMAT, RECORD, STATUS, SUPERVISOR_LOG, RunStore, StoredRun
from pumice.store.files.state_directory import make_private, state_error
from pumice.store.journal import FILE as JOURNAL
from pumice.store.journal import RESERVE
from pumice.store.logs.log_index import decode_records, encode_record
from pumice.store.run_errors import InvalidOption
from pumice.store.run_names import is_directory_name, parse_run
from pumice.store.run_record import FORMAT, OPENED, RunRecord, RunStatus
from pumice.store.sample_file import FILE as SAMPLES
from pumice.store.sample_file import read_samples

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 8 << 30
_MOST_JSON: Final = 64 << 20  # bytes of a file that is read as a whole
_MOST_HEADER: Final = 1 << 20  # bytes, with the long name of a file
_PART: Final = 1 << 20
_LATEST: Final = 1 << 62  # nanoseconds since 1970, or the number of a batch of lines
# Arithmetic with other years fails.
_YEARS: Final = range(1970, 2200)
_TIME: Final = re.compile(rb'": *"([0-9]{4})-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{5})"')
_MOST_FINDINGS: Final = 20
_DEEPEST: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9_@+=:,-][A-Za-z0-9._@+=:, -]{0,199}", re.ASCII)
_NOT_PACKED: Final = frozenset({OWNER_LOCK, RESERVE, SUPERVISOR_LOG, KEPT, SCRATCH})
_BROKEN: Final = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error)


class ArchiveError(Exception):
    """Reading cannot go on."""


@dataclass(slots=True)
class _Bounded:
    """A file that is unpacked as it is read, up to a limit in all, and of a header."""

    file: gzip.GzipFile
    most: int
    left: int = _MOST_HEADER

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise ArchiveError(f"a header is longer than {_MOST_HEADER >> 20} MiB")
        self.left -= size
        return self.file.read(size)

    def seek(self, offset: int) -> int:
        if offset > self.most:
            raise ArchiveError(f"it has more than {self.most / (1 << 30):.3g} GiB")
        return self.file.seek(offset)

    def tell(self) -> int:
        return self.file.tell()

    def part(self, size: int) -> bytes:
        """Return the next bytes of the content of a file."""
        return self.file.read(min(size, _PART))


def open_archive(store: RunStore, archive: BinaryIO, name: str) -> OpenedRun:
    """Raises InvalidOption with all that is wrong with it; then nothing is left behind. `name` is that of the file."""
    with _staging(store) as directory:
        reader = _ArchiveReader(directory, Position(name))
        try:
            reader.unpack(archive)
        except (ArchiveError, *_BROKEN) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise state_error(store.state, error) from error
            text = str(error) if isinstance(error, ArchiveError) else "not an archive of `pumice export`, or cut off"
            reader.refuse("", text)
        record = reader.record()
        if record is not None and not reader.findings:
            existing = store.load(store.directory(record.namespace, record.name, record.number, opened=True))
            if existing is not None and existing.record.uid == record.uid:
                return OpenedRun(ref_of(existing), is_new=False, has_logs=reader.has_logs)
            if existing is not None:
                other = f"{existing.ref} is another run, of {printable(existing.record.host)}"
                remove = Command("rm", existing.ref)
                reader.findings.append(Problem(other, (remove, " removes it"), reader.where))
            reader.check(store, record)
        if reader.findings or record is None:
            raise InvalidOption.of(reader.findings)
        try:
            run = store.add_opened(directory, record)
        except OSError as error:
            raise state_error(store.state, error) from error
    return OpenedRun(ref_of(run), is_new=True, has_logs=reader.has_logs)


@contextmanager
def _staging(store: RunStore) -> Iterator[Path]:
    """Yield a new directory on the file system of the store, which is removed unless it was renamed."""
    try:
        make_private(store.state)
        make_private(store.trash)
        directory = Path(tempfile.mkdtemp(prefix="open-", dir=store.trash))
    except OSError as error:
        raise state_error(store.state, error) from error
    try:
        yield directory
    finally:
        remove_tree(directory)


@dataclass(slots=True)
class _ArchiveReader:
    directory: Path  # new and empty
    where: Position  # the name of the archive
    findings: list[Problem] = field(default_factory=list)
    has_logs: bool = False
    _top: str = ""
    _files: int = 0
    _bytes: int = 0

    def refuse(self, name: str, why: str) -> None:
        if len(self.findings) == _MOST_FINDINGS:
            name, why = "", "and more"
        if len(self.findings) <= _MOST_FINDINGS:
            self.findings.append(Problem(f"{printable(name, 100)}: {why}" if name else why, where=self.where))

    def unpack(self, archive: BinaryIO) -> None:
        """Write the files of the archive into the directory. Raises ArchiveError, and what tarfile raises."""
        free = shutil.disk_usage(self.directory).free
        most = min(MOST_BYTES, free // 2)
        with gzip.GzipFile(fileobj=archive) as unpacked:
            # A header for each file, too.
            source = _Bounded(unpacked, most + MOST_FILES * 2048)
            with tarfile.open(fileobj=source, mode="r:", errorlevel=2) as entries:  # type: ignore[call-overload]  # it only reads
                while (entry := entries.next()) is not None:
                    self._files += 1
                    self._bytes += max(0, entry.size)
                    if self._files > MOST_FILES:
                        raise ArchiveError(f"it has more than {MOST_FILES:,} files")
                    if self._bytes > most:
                        raise ArchiveError(f"its files are larger than {most / (1 << 30):.3g} GiB in all")
                    self._add(entry, source)
                    entries.members.clear()
                    source.left = _MOST_HEADER
            # Up to its checksum.
            while source.part(_PART):
                source.seek(source.tell())

    def _add(self, entry: tarfile.TarInfo, source: _Bounded) -> None:
        why = self._why_not(entry)
        if why:
            self.refuse(entry.name, why)
        elif entry.isfile():
            path = self.directory.joinpath(*entry.name.split("/")[1:])
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except (FileExistsError, NotADirectoryError):
                self.refuse(entry.name, "is there twice")
                return
            with os.fdopen(descriptor, "wb") as file:
                source.seek(entry.offset_data)
                left = entry.size
                while left:
                    part = source.part(left)
                    if not part:
                        raise EOFError
                    file.write(part)
                    left -= len(part)
            # Followers and the page look at times; those of the future would never be over.
            os.utime(path, (max(0, entry.mtime), max(0, min(entry.mtime, 1 << 32))))
            self.has_logs = self.has_logs or path.suffix == ".log"

    def _why_not(self, entry: tarfile.TarInfo) -> str:
        """Return why an entry is not accepted; empty if it is."""
        parts = entry.name.split("/")
        if entry.name.startswith("/") or ".." in parts:
            return "leads out of the archive"
        if entry.issparse() or not (entry.isfile() or entry.isdir()) or entry.size < 0:
            return "is no ordinary file"
        if len(parts) > _DEEPEST or not all(map(_NAME.fullmatch, parts)) or (entry.isfile() and len(parts) == 1):
            return "is no name of a file of a run"
        self._top = self._top or parts[0]
        if parts[0] != self._top:
            return f"is not in {printable(self._top, 100)}, the directory of the run"
        if _NOT_PACKED & set(parts[1:]):
            return "is never part of an archive"
        if entry.name.endswith((".json", ".jsonl")) and entry.size > _MOST_JSON:
            return f"is larger than {_MOST_JSON >> 20} MiB"
        return ""

    def record(self) -> RunRecord | None:
        """Return the record of the run, as one that was opened."""
        try:
            content = (self.directory / RECORD).read_bytes()
            number = msgspec.json.decode(content, type=_Format).format
            if number != FORMAT:
                self.refuse(RECORD, f"{OTHER_FORMAT}: format {number}, this one reads {FORMAT}")
                return None
            record = msgspec.json.decode(content, type=RunRecord)
        except OSError:
            if not self.findings:
                self.refuse("", f"not an archive of `pumice export`: it has no {RECORD}")
            return None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            self.refuse(RECORD, printable(str(error)))
            return None
        record = msgspec.structs.replace(record, mode=OPENED)
        name = parse_run(record.ref)
        if name is None or name.name != record.name or not is_directory_name(record.namespace):
            self.refuse(RECORD, f"{printable(record.namespace, 100)}/{printable(record.ref, 100)}: cannot name a run")
            return None
        return record

    def check(self, store: RunStore, record: RunRecord) -> None:
        """Find what keeps the run from being shown: commands should not be the first to notice."""
        if not (self.directory / JOURNAL).is_file():
            self.refuse("", f"it has no {JOURNAL}")
        for path in sorted(self.directory.rglob("*.json*")):
            self._check_json(path, RunStatus if path == self.directory / STATUS else None)
        for path in self.directory.rglob("*.idx"):
            _mend_index(path)
        if self.findings:
            return
        run = StoredRun(self.directory, record)
        try:
            run.written_job()
            history = run.history()
            if history.damaged:
                self.refuse(JOURNAL, f"{history.damaged} lines cannot be read")
            why_run(store, run, record.created)
            if any(each.time.year not in _YEARS or not math.isfinite(each.t) for each in read_samples(self.directory)):
                self.refuse(SAMPLES, f"has a time that is not between {_YEARS[0]} and {_YEARS[-1]}")
            summary(run, run.status())
        except Exception as error:  # noqa: BLE001 - whatever it is, no later command should fail with it
            self.refuse(JOURNAL, f"cannot be shown: {printable(str(error) or type(error).__name__)}")

    def _check_json(self, path: Path, kind: type[RunStatus] | None) -> None:
        content, name = path.read_bytes(), str(path.relative_to(self.directory))
        if any(int(year) not in _YEARS for year in _TIME.findall(content)):
            self.refuse(name, f"has a time that is not between {_YEARS[0]} and {_YEARS[-1]}")
        if path.suffix == ".json":
            try:
                msgspec.json.decode(content, type=kind or dict)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                self.refuse(name, printable(str(error)))


def _mend_index(path: Path) -> None:
    """Keep the records of an index within their log, as readers expect of what Pumice has written."""
    try:
        size = path.with_suffix(".log").stat().st_size
    except OSError:
        path.unlink()
        return
    before = 0
    records = []
    for sequence, time, end, lines, flags in zip(*astuple(decode_records(path.read_bytes(), 0)), strict=True):
        begin, before = before, min(max(end, before), size)
        numbers = min(sequence, _LATEST), min(time, _LATEST), before, min(lines, before - begin), flags
        records.append(encode_record(*numbers))
    path.write_bytes(b"".join(records))


class _Format(msgspec.Struct):
    format: int = 2
