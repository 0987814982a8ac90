"""Runs a command on a terminal of a given width and returns what a person sees in the end: lines, with their colours.

As much of a terminal as Pumice uses: colours, lines that are redrawn, and lines that are too long and continue on the
next one. What scrolls off the screen of a real terminal is still there, as in its scrollback.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PART = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]")
_ROWS = 40


@dataclass(slots=True)
class Line:
    """Characters, each with the codes of its colour. `continues`: it is the rest of the line above."""

    continues: bool = False
    cells: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(character for character, _ in self.cells).rstrip()


@dataclass(slots=True)
class _Screen:
    columns: int
    lines: list[Line] = field(default_factory=lambda: [Line()])
    row: int = 0
    column: int = 0
    colour: str = ""

    def write(self, character: str) -> None:
        if self.column == self.columns:
            self.next_line(continues=True)
        cells = self.lines[self.row].cells
        cells.extend([(" ", "")] * (self.column + 1 - len(cells)))
        cells[self.column] = (character, self.colour)
        self.column += 1

    def next_line(self, *, continues: bool = False) -> None:
        self.row += 1
        if continues:
            self.column = 0
        if self.row == len(self.lines):
            self.lines.append(Line(continues=continues))

    def obey(self, code: str, argument: str) -> None:
        if code == "m":
            self.colour = argument.removeprefix("0")
        elif code == "A":
            self.row -= int(argument or 1)
        elif code == "J":
            del self.lines[self.row + 1 :]
            del self.lines[self.row].cells[self.column :]
        else:
            raise ValueError(f"{argument}{code}: this terminal does not know it")


def show(text: str, columns: int) -> list[Line]:
    """Return the lines that a terminal of this width has after this text."""
    screen = _Screen(columns)
    for part in _PART.finditer(text):
        if part[2]:
            screen.obey(part[2], part[1])
        elif part[0] == "\r":
            screen.column = 0
        elif part[0] == "\n":
            screen.next_line()
        else:
            screen.write(part[0])
    while len(screen.lines) > 1 and not screen.lines[-1].text:
        screen.lines.pop()
    return screen.lines


def output_on_terminal(argv: Sequence[str], columns: int, directory: Path, environ: Mapping[str, str]) -> str:
    """Run a command whose input and output are a terminal; return all that it wrote."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    process = subprocess.Popen(
        argv, cwd=directory, env=environ, stdin=far, stdout=far, stderr=far, start_new_session=True
    )
    os.close(far)
    written = b""
    while data := _read(near):
        written += data
    os.close(near)
    process.wait()
    return written.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        # How Linux says that nobody has the other end open any more.
        return b""
