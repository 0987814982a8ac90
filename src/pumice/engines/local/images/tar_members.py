"""Reads tar files member by member, in bounded memory, and takes no broken header for the end of the file."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Final, Self

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.streams import Forward

# The module has classes for these, but does not show them to others.
_BROKEN: Final = ("InvalidHeaderError", "TruncatedHeaderError")


def members(stream: Forward) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Each member with the archive that its data can be had from, before the next one is asked for."""
    try:
        with tarfile.TarFile(fileobj=stream, mode="r", tarinfo=_Member) as archive:
            while (member := archive.next()) is not None:
                if member.size < 0:
                    raise ImageError(f"{member.name}: claims an impossible size")
                yield archive, member
                # The reader keeps all members for later, which would set no bound to its memory.
                archive.members = []  # type: ignore[attr-defined] # a public attribute that the stubs do not know
    except tarfile.TarError as error:
        raise ImageError(f"is damaged or cut short: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ImageError(f"is damaged: {error}") from None


class _Member(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """The next header; garbage in its place is an error and not, as for the reader, the end."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            # The others mean the end of the file, with or without the block that should mark it.
            if type(error).__name__ in _BROKEN:
                raise ImageError(f"is damaged or cut short: {error}") from None
            raise
