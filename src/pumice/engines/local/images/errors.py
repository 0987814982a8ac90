"""Errors about images: `where` is the file or the image, the message may start with the layer."""

from __future__ import annotations

import errno
from typing import Final, Self

from pumice.model.problem import Position
from pumice.model.pumice_error import PumiceError
from pumice.model.text import printable

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class ImageError(PumiceError):
    exit_code = 2

    def __init__(self, message: str, hint: str = "", where: str = "") -> None:
        # All of these may contain names from an archive.
        super().__init__(printable(message), printable(hint), Position(printable(where)))

    def within(self, part: str) -> Self:
        """Return the error with a part of the image before its message."""
        return type(self)(f"{part}: {self.problem.message}", self.hint, self.problem.where.file)


def from_os_error(error: OSError, where: str = "") -> ImageError:
    message = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        hint = "free some space (`pumice image list` shows what is stored), or move the store with XDG_STATE_HOME"
        return ImageError(f"the disk is full: {message}", hint, where)
    file = str(error.filename or where)
    return ImageError(message if file == where else f"{file}: {message}", where=where)
