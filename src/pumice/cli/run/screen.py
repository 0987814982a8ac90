"""A terminal whose last lines stay: what is printed scrolls above them, and at the end they are gone.

Only where somebody sees it. What goes to a pipe may come out on the same terminal again, so beside a pipe nothing is
drawn; beside a file it is.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO

_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"  # CSI; OSC and its like; others
)
_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1a\x1c-\x1f\x7f\x80-\x9f]")
_RESET: Final = "\x1b[0m"
_FALLBACK: Final = (80, 24)


@dataclass(slots=True)
class Screen:
    """`data` is what programs may read, `talk` is for people."""

    data: TextIO
    talk: TextIO
    draws_on: TextIO | None = None  # the last lines; None: nowhere
    _bottom: tuple[str, ...] = ()
    _drawn: int = 0

    @classmethod
    def of(cls, data: TextIO, talk: TextIO) -> Screen:
        pairs = ((talk, data), (data, talk)) if os.environ.get("TERM") != "dumb" else ()
        found = (one for one, other in pairs if one.isatty() and (other.isatty() or _is_file(other)))
        return cls(data, talk, next(found, None))

    @property
    def live(self) -> bool:
        return self.draws_on is not None

    def print(self, lines: Sequence[str], *, talk: bool = False) -> None:
        """Lines that scroll. The last lines are gone until they are given anew."""
        stream = self.talk if talk else self.data
        self._erase()
        if stream.isatty():
            lines = [harmless(line) for line in lines]
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()

    def keep(self, bottom: Sequence[str]) -> None:
        """Lines that stay below all others, instead of those before."""
        if self.draws_on is None or (self._drawn and tuple(bottom) == self._bottom):
            return
        self._erase()
        self._bottom, self._drawn = tuple(bottom), len(bottom)
        if bottom:
            width = self.size()[0] - 1
            self.draws_on.write("\n".join(clipped(harmless(line), width) for line in bottom))
            self.draws_on.flush()

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size((self.draws_on or self.talk).fileno())
        except (OSError, ValueError):
            return _FALLBACK
        return (found.columns or _FALLBACK[0], found.lines or _FALLBACK[1])

    def _erase(self) -> None:
        if self._drawn and self.draws_on is not None:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self.draws_on.write(f"\r{up}\x1b[J")
            self.draws_on.flush()
        self._drawn = 0


def harmless(text: str) -> str:
    """What a program printed, without anything that would move the cursor or change the terminal; colours stay."""
    if "\x1b" in text:
        text = _ESCAPE.sub(lambda found: found[0] if _COLOUR.fullmatch(found[0]) else "", text)
        # A colour that a program leaves on would run into what follows.
        last = text.rpartition("\x1b")[2]
        text = text if f"\x1b{last}".startswith(_RESET) or "\x1b" not in text else text + _RESET
    return _CONTROL.sub("", text)


def plain(text: str) -> str:
    """Without colours, too."""
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def clipped(text: str, width: int) -> str:
    """The part that fits into one line of a terminal, in its colours."""
    text = text.expandtabs()
    shown, left, place = [], width, 0
    while place < len(text):
        if colour := _COLOUR.match(text, place):
            shown.append(colour[0])
            place = colour.end()
            continue
        left -= cells(text[place])
        if left < 0:
            break
        shown.append(text[place])
        place += 1
    cut = place < len(text)
    return "".join(shown) + (_RESET if cut and "\x1b" in text else "")


def cells(character: str) -> int:
    """How many columns a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_file(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    # /dev/null is a device, and as quiet as a file.
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
