"""What goes wrong with an image: the file, the layer where there is one, what is wrong, and what to do."""

from __future__ import annotations

import errno
from typing import Final

from pumice.model.text import printable

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class ImageError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        # Both repeat names that stand in the archive.
        self.message, self.hint = printable(message), printable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def from_os_error(where: str, error: OSError) -> ImageError:
    """The error of a system call, as one about the image."""
    what = (error.strerror or str(error)).lower()
    if error.errno in _NO_ROOM:
        hint = "make room (`pumice image list` shows what is stored), or put the store elsewhere with XDG_STATE_HOME"
        return ImageError(f"{where}: the disk is full: {what}", hint)
    file = str(error.filename) if error.filename else ""
    return ImageError(f"{where}: {what}" if not file or where == file else f"{where}: {file}: {what}")
