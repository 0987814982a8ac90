"""Recorded stores as archives: what names the machine is replaced, and times are moved to fixed ones."""

from __future__ import annotations

import datetime as dt
import fcntl
import gzip
import io
import os
import re
import socket
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zlib import crc32

from pumice.store.logs.log_index import RECORD, decode_records, encode_record

STORES: Final = Path(__file__).parent / "stores"
NOW: Final = dt.datetime(2026, 9, 18, 12, tzinfo=dt.UTC)
HOST: Final = "box"
OWNED: Final = "owned"  # a file with the directories of the runs that a process owned when the store was copied
_KEPT: Final = re.compile(r"runs/.*|active/.*|hosts/[^/]+/reservations/.*\.json|owned")
_LEFT_OUT: Final = frozenset({"supervisor.log", "reserve", "turn"})
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)((?:\.\d+)?(?:Z|\+00:00))")
_SAMPLE: Final = 36  # bytes of a record of samples.bin
_IS_ROUND: Final = 2


@dataclass(frozen=True)
class Disguise:
    """Replaces what is of one machine or one moment. `words` are replaced in the order given; `seconds` are added."""

    story: str
    words: Mapping[str, str]
    seconds: int
    _uids: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        for word, by in self.words.items():
            text = text.replace(word, by)
        text = _UUID.sub(lambda match: self._uid(match[0]), text)
        return _TIME.sub(lambda match: self._moment(match[1]) + match[2], text)

    def content(self, name: str, content: bytes) -> bytes:
        if name.endswith(".idx"):
            return self._index(content)
        if name.endswith("samples.bin"):
            return self._samples(content)
        if name.endswith("owner.lock"):
            return b""
        return self.text(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _uid(self, found: str) -> str:
        made = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.story}/{len(self._uids)}"))
        return self._uids.setdefault(found, made)

    def _moment(self, text: str) -> str:
        return (dt.datetime.fromisoformat(text) + dt.timedelta(seconds=self.seconds)).isoformat()

    def _index(self, content: bytes) -> bytes:
        found = decode_records(content[: len(content) - len(content) % RECORD], 0)
        columns = zip(found.sequence, found.times, found.ends, found.lines, found.flags, strict=True)
        return b"".join(encode_record(seq, time + self.seconds * 10**9, *rest) for seq, time, *rest in columns)

    def _samples(self, content: bytes) -> bytes:
        """Move the wall clock of each round: the second of its two numbers, before 8 bytes that are not used."""
        records = []
        for begin in range(0, len(content), _SAMPLE):
            body = bytearray(content[begin : begin + _SAMPLE - 4])
            if body[0] == _IS_ROUND:
                view = memoryview(body)[16:24].cast("d")
                view[0] += self.seconds
                view.release()
            records.append(bytes(body) + crc32(body).to_bytes(4, "little"))
        return b"".join(records)


def pack(store: Path, disguise: Disguise) -> bytes:
    """Return the archive of a store: the same bytes for the same files."""
    names = sorted(str(path.relative_to(store)) for path in store.rglob("*") if path.is_symlink() or path.is_file())
    # The record of a run first, so that it has the first uid.
    names.sort(key=lambda name: not name.endswith("/run.json"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            path = store / name
            if not _KEPT.fullmatch(name) or path.name in _LEFT_OUT:
                continue
            content = b"" if path.is_symlink() else disguise.content(name, path.read_bytes())
            entry = tarfile.TarInfo(disguise.text(name))
            entry.mtime, entry.mode, entry.size = int(path.lstat().st_mtime) + disguise.seconds, 0o600, len(content)
            if path.is_symlink():
                entry.type, entry.linkname = tarfile.SYMTYPE, disguise.text(str(path.readlink()))
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def words_of(root: Path, python: str, boot: str) -> dict[str, str]:
    """Return what names the machine on which a story was recorded, longest first."""
    host = socket.gethostname()
    words = {
        str(root): "",
        python: "/usr/bin/python3",
        boot: "another boot",
        f'"host":"{host}"': f'"host":"{HOST}"',
        f"hosts/{host}/": f"hosts/{HOST}/",
    }
    return {word: by for word, by in words.items() if word}


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and the contents of the files of an archive."""
    with tarfile.open(archive) as found:
        for entry in found:
            file = found.extractfile(entry) if entry.isreg() else None
            yield entry.name, entry.linkname.encode() if file is None else file.read()


@dataclass(frozen=True)
class Recorded:
    """A run in an archive. One whose record cannot be read has no uid."""

    name: str
    number: int
    uid: str
    pods: tuple[str, ...]

    @property
    def ref(self) -> str:
        return f"{self.name}:{self.number}"


def recorded_stories() -> dict[str, list[Recorded]]:
    """Return the runs of each story."""
    found = {}
    for archive in sorted(STORES.glob("*.tar.gz")):
        files = dict(members(archive))
        runs = found[archive.name.removesuffix(".tar.gz")] = list[Recorded]()
        for name, content in sorted(files.items()):
            if match := re.fullmatch(r"(runs/[^/]+/([^/]+)/(\d+))/run\.json", name):
                pods = {each.split("/")[5]: None for each in sorted(files) if each.startswith(f"{match[1]}/pods/")}
                uid = _UUID.search(content.decode())
                readable = content.endswith(b"}\n")
                runs.append(Recorded(match[2], int(match[3]), uid[0] if uid and readable else "", tuple(pods)))
    return found


@contextmanager
def unpacked(state: Path) -> Iterator[None]:
    """Unpack all archives into one state directory; own the runs that lived, as their processes would."""
    with ExitStack() as stack:
        for archive in sorted(STORES.glob("*.tar.gz")):
            owned = _unpack(archive, state)
            for name in owned:
                stack.callback(os.close, _lock(state / name))
        yield


def _unpack(archive: Path, state: Path) -> list[str]:
    """Return the files that a live process has locked."""
    owned, reservations, changed = list[str](), list[str](), dict[Path, float]()
    with tarfile.open(archive) as found:
        for entry in found:
            file, path = found.extractfile(entry) if entry.isreg() else None, state / entry.name
            if file is not None and entry.name == OWNED:
                owned = file.read().decode().splitlines()
                continue
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if file is None:
                path.symlink_to(entry.linkname)
            else:
                path.write_bytes(file.read())
                changed[path] = entry.mtime
            changed[path.parent] = max(entry.mtime, changed.get(path.parent, 0))
            if "/reservations/" in entry.name:
                reservations.append(entry.name)
    for path, moment in changed.items():
        os.utime(path, (moment, moment))
    return [*owned, *reservations] if owned else []


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor
