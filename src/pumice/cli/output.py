"""Tables, and colour where the output is a terminal and NO_COLOR is not set."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Style:
    coloured: bool

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def error(self, text: str) -> str:
        return self._paint("1;31", text)

    def success(self, text: str) -> str:
        return self._paint("1;32", text)

    def warning(self, text: str) -> str:
        return self._paint("33", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.coloured and text else text


def style_for(stream: TextIO) -> Style:
    allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(allowed and stream.isatty())


def table(rows: Sequence[tuple[str, ...]], indent: str = "") -> list[str]:
    """The rows as lines with aligned columns, without trailing spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


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


def fit(line: str, stream: TextIO) -> str:
    """Break a line between words where it is wider than the terminal; what follows is indented."""
    width = columns(stream)
    if width is None or len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    # A terminal may be very narrow.
    return "\n".join(textwrap.wrap(line, max(width, 20), subsequent_indent=indent, break_on_hyphens=False))


@dataclass(slots=True)
class ProgressLine:
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
        self.stream.write(f"\r\x1b[K{text[: (columns(self.stream) or 80) - 1]}")
        self.stream.flush()
        self._shown = True

    def end(self) -> None:
        """Leave the last line, and continue below it."""
        if self._shown:
            self.stream.write("\n")
        self._shown = False
