"""Reads tar files member by member, in bounded memory, and does not mistake a broken header for the end."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Final, Self

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.streams import Forward

# These classes of tarfile are not public.
_BROKEN: Final = ("InvalidHeaderError", "TruncatedHeaderError")


def members(stream: Forward) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield each member with its archive. Read a member's data before advancing."""
    try:
        with tarfile.TarFile(fileobj=stream, mode="r", tarinfo=_Member) as archive:
            while (member := archive.next()) is not None:
                if member.size < 0:
                    raise ImageError(f"{member.name}: claims an impossible size")
                yield archive, member
                # tarfile keeps all members, which would take unbounded memory.
                archive.members = []  # type: ignore[attr-defined] # a public attribute that the stubs do not know
    except tarfile.TarError as error:
        raise ImageError(f"is damaged or cut short: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ImageError(f"is damaged: {error}") from None


class _Member(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Return the next header. Garbage is an error, while tarfile takes it for the end."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            # Other errors mean the end of the file, with or without an end marker.
            if type(error).__name__ in _BROKEN:
                raise ImageError(f"is damaged or cut short: {error}") from None
            raise
