"""Tables, and colour where the output is a terminal and NO_COLOR is not set."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Final, TextIO

from msgspec import Struct

from pumice.client.view.terminal import Terminal, write_own
from pumice.model.text import COLOUR, escaped

_LABEL: Final = re.compile(r" *[^ ]+(?: [^ ]+)*  +(?=[^ ])")
_LONGEST_LABEL: Final = 20
_NARROWEST: Final = 16  # columns in which a sentence can be read


class Style(Struct, frozen=True):
    """`mark` is the number by which a Terminal knows these colours."""

    coloured: bool
    mark: str = ""

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def error(self, text: str) -> str:
        return self._paint("1;31", text)

    def success(self, text: str) -> str:
        return self._paint("1;32", text)

    def warning(self, text: str) -> str:
        return self._paint("33", text)

    def _paint(self, code: str, text: str) -> str:
        mark = f"{self.mark};" if self.mark else ""
        return f"\x1b[{mark}{code}m{text}\x1b[{mark}0m" if self.coloured and text else text


def style_for(stream: TextIO) -> Style:
    allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(allowed and stream.isatty(), stream.mark if isinstance(stream, Terminal) else "")


def table(rows: Sequence[tuple[str, ...]], indent: str = "", width: int | None = None) -> list[str]:
    """The rows as lines with aligned columns, without trailing spaces; a cell has one line, whatever a job wrote in it.

    Where they are wider than `width`, the last column is broken between words. If too little is left for it, a long
    cell widens only its own row, which is broken like any other line.
    """
    rows = [tuple(map(escaped, row)) for row in rows]
    cells_of = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in cells_of]
    # The last cell of a row begins after the others, each with two spaces.
    start = len(indent) + sum(widths[:-1]) + 2 * (len(widths) - 1)
    if width is not None and rows and not _has_room(cells_of[-1], width - start):
        most = width // 3 + 2
        widths = [max((len(cell) for cell in column if len(cell) <= most), default=0) for column in cells_of]
    lines = []
    for row in rows:
        before = indent + "".join(cell.ljust(size) + "  " for cell, size in zip(row[:-1], widths, strict=False))
        line = (before + row[-1]).rstrip()
        aligned = width is not None and _has_room(row[-1:], width - len(before))
        lines += broken(line, width, len(before) if aligned else None)
    return lines


def clipped_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows as lines for standard output, cut at the width of a terminal."""
    width = columns(sys.stdout)
    return [line if width is None else line[:width] for line in table(rows)]


def _has_room(cells: Sequence[str], width: int) -> bool:
    """Whether texts can be broken to this width."""
    longest = max(len(word) for cell in cells for word in (cell.split() or [""]))
    return width >= max(longest, min(_NARROWEST, max(map(len, cells))))


def columns(stream: TextIO) -> int | None:
    """The width of the terminal, or what COLUMNS says; None for files and pipes, whose readers want whole lines."""
    if not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def fit(text: str, stream: TextIO) -> str:
    """Break lines between words where they are wider than the terminal; what follows is indented."""
    width = columns(stream)
    return "\n".join(part for line in text.split("\n") for part in broken(line, width))


def broken(line: str, width: int | None, indent: int | None = None) -> list[str]:
    """A line as lines of at most `width` columns; a word that is wider stays whole.

    What follows is indented by `indent`: by default to the text after a label at the beginning of the line, such as a
    time or `last line`.
    """
    if width is None or visible(line) <= width:
        return [line]
    if indent is None:
        label = _LABEL.match(COLOUR.sub("", line))
        leading = len(line) - len(line.lstrip())
        indent = (
            len(label[0]) if label is not None and len(label[0]) <= min(_LONGEST_LABEL, width // 2) else leading + 4
        )
    parts, current = [], ""
    for gap, word in re.findall(r"( *)([^ ]+)", line):
        if current.strip() and visible(current) + len(gap) + visible(word) > width:
            parts.append(current)
            current = " " * indent + word
        else:
            current += gap + word
    return [*parts, current]


def visible(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(map(cells, COLOUR.sub("", text)))


def cells(character: str) -> int:
    """Return how many columns a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class ProgressLine(Struct):
    """The progress of one command: a line that is replaced on a terminal, and a line each second elsewhere."""

    stream: TextIO
    _shown: bool = False

    @property
    def interval(self) -> float:
        """Seconds between two lines."""
        return 0.2 if self._is_terminal else 1.0

    @property
    def _is_terminal(self) -> bool:
        return self.stream.isatty() and os.environ.get("TERM") != "dumb"

    def print(self, text: str) -> None:
        self.end()
        print(text, file=self.stream, flush=True)

    def replace(self, text: str) -> None:
        if not self._is_terminal:
            self.print(text)
            return
        write_own(self.stream, "\r\x1b[K")
        self.stream.write(escaped(text)[: (columns(self.stream) or 80) - 1])
        self.stream.flush()
        self._shown = True

    def end(self) -> None:
        """Leave the last line, and continue below it."""
        if self._shown:
            self.stream.write("\n")
        self._shown = False
