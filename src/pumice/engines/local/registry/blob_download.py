"""Downloads one blob into a file, and continues where an earlier attempt stopped.

The bytes go to `NAME.partial`, which stays when the download is interrupted. The file gets its name after its digest is
verified.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

from pumice.engines.local.images.errors import from_os_error
from pumice.engines.local.registry.registry_client import RegistryClient, RegistryError, TemporaryError
from pumice.model.units import size_text

_PAUSES: Final = (0.25, 0.5, 1.0, 2.0)  # seconds before another attempt
_WORTHWHILE: Final = 1 << 20  # an attempt that gained so many bytes does not count
_CHUNK: Final = 1 << 20
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416
_RANGE: Final = re.compile(r"bytes (\d{1,19})-\d{1,19}/(?:\d{1,19}|\*)")


@dataclass(slots=True)
class Transfer:
    total: int  # bytes
    layers: int
    started: float  # seconds of a monotonic clock
    done: int = 0
    finished_layers: int = 0
    resumed: int = 0  # bytes that were here before

    def text(self, now: float) -> str:
        """Return `3 of 5 layers, 120 MiB of 1.2 GiB, 45 MiB/s`."""
        seconds = max(now - self.started, 0.001)
        speed = size_text(max(0, int((self.done - self.resumed) / seconds)))
        layers = f"{self.finished_layers} of {self.layers} layers"
        return f"{layers}, {size_text(self.done)} of {size_text(self.total)}, {speed}/s"


class Blob(Struct, frozen=True):
    digest: str  # a valid one
    size: int
    what: str  # for messages: layer 2 of 5

    def path(self, layout: Path) -> Path:
        return layout / "blobs" / "sha256" / self.digest.removeprefix("sha256:")


async def download(client: RegistryClient, blob: Blob, layout: Path, transfer: Transfer) -> None:
    """Raises RegistryError, and ImageError for a disk that is full."""
    target = blob.path(layout)
    if target.is_file():
        transfer.done += blob.size
        transfer.resumed += blob.size
        return
    with closing(await asyncio.to_thread(_PartialFile, target, blob)) as file:
        transfer.done += file.size
        transfer.resumed += file.size
        failures = 0
        while True:
            before, resumed = file.size, file.size > 0
            try:
                if file.size < blob.size or not blob.size:
                    await _attempt(client, blob, file, transfer)
                file.finish(target)
            except _WrongDigestError:
                transfer.done -= file.size
                file.restart()
                if not resumed:
                    file.remove()
                    raise
                # What was left by an earlier process may be damaged.
            except TemporaryError:
                failures = 1 if file.size - before >= _WORTHWHILE else failures + 1
                if failures > len(_PAUSES):
                    raise
                await asyncio.sleep(_PAUSES[failures - 1])
            else:
                return


class _WrongDigestError(RegistryError):
    pass


async def _attempt(client: RegistryClient, blob: Blob, file: _PartialFile, transfer: Transfer) -> None:
    """Fetch the rest of the blob; what arrives before a failure is kept."""
    headers = {"Range": f"bytes={file.size}-"} if file.size else {}
    async with client.get(f"blobs/{blob.digest}", headers) as response:
        if response.status != _RANGE_NOT_SATISFIABLE:
            client.check_status(response, blob.what)
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        continues = response.status == _PARTIAL_CONTENT and match is not None and int(match[1]) == file.size
        if file.size and not continues:
            # The server does not know ranges, and sends all of it.
            transfer.done -= file.size
            file.restart()
            if response.status in (_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE):
                raise TemporaryError(f"{client.image.host} sends another part of {blob.what} than asked for")
        while part := await response.content.read(_CHUNK):
            if file.size + len(part) > blob.size:
                file.remove()
                raise RegistryError(f"{client.image.host} sends more of {blob.what} than its {blob.size} bytes")
            # While one part is hashed and written, the next one arrives.
            await asyncio.to_thread(file.append, part)
            transfer.done += len(part)
    if file.size < blob.size:
        raise TemporaryError(f"{client.image.host} sends {file.size} of the {blob.size} bytes of {blob.what}")


class _PartialFile:
    """The part of a blob that is here, and its digest so far."""

    def __init__(self, target: Path, blob: Blob) -> None:
        self._path = target.with_name(f"{target.name}.partial")
        self._blob = blob
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = self._path.open("a+b")
            self._hash = hashlib.sha256()
            self._file.seek(0)
            self.size = 0
            while part := self._file.read(_CHUNK):
                self._hash.update(part)
                self.size += len(part)
        except OSError as error:
            raise from_os_error(error) from None
        if self.size > blob.size:
            self.restart()

    def append(self, part: bytes) -> None:
        self._hash.update(part)
        try:
            self._file.write(part)
            self._file.flush()
        except OSError as error:
            raise from_os_error(error) from None
        self.size += len(part)

    def restart(self) -> None:
        self._file.truncate(0)
        self._hash, self.size = hashlib.sha256(), 0

    def finish(self, target: Path) -> None:
        found = f"sha256:{self._hash.hexdigest()}"
        if found != self._blob.digest:
            raise _WrongDigestError(f"{self._blob.what}: its digest is {found}, not {self._blob.digest}; it is refused")
        try:
            self._path.rename(target)
        except OSError as error:
            raise from_os_error(error) from None

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        self._file.close()
