"""Standard output and standard error on a terminal: what commands print is shown, and nothing in it is obeyed.

The program (`cli/program.py`) puts a Terminal in the place of each stream that is a terminal. So every command prints
through one, and none can forget to escape what comes from a job: a name, a message, a path. Only this is passed on:

- text, with its hidden characters escaped by `model/text.py`;
- colours of `Style`, which carry a number that no text can know;
- what a view writes by `write_own`: movements of the cursor, and log lines, which it has escaped but for their colours.
"""

from __future__ import annotations

import io
import os
import re
from typing import Final, Self, TextIO

from pumice.model.text import escaped

_MARK: Final = str(int.from_bytes(os.urandom(8)))
_OWN_COLOUR: Final = re.compile(rf"\x1b\[{_MARK};([0-9;]*m)")


class Terminal(io.TextIOWrapper):
    mark: Final = _MARK  # the first parameter of the program's own colours

    @classmethod
    def in_place_of(cls, stream: io.TextIOWrapper) -> Self:
        """Take the terminal from a stream, which cannot be used any more."""
        buffered, errors = stream.line_buffering, stream.errors
        through, encoding = stream.write_through, stream.encoding
        return cls(stream.detach(), encoding, errors, line_buffering=buffered, write_through=through)

    def write(self, text: str, /) -> int:
        pieces = _OWN_COLOUR.split(text)
        shown = (f"\x1b[{each}" if index % 2 else escaped(each, lines=True) for index, each in enumerate(pieces))
        super().write("".join(shown))
        return len(text)

    def write_own(self, text: str) -> None:
        """Write text with escape sequences, all of which are meant."""
        super().write(text)


def write_own(stream: TextIO, text: str) -> None:
    """Write text to a stream that may be a terminal; its escape sequences are the program's own, or were checked."""
    if isinstance(stream, Terminal):
        stream.write_own(text)
    else:
        stream.write(text)
