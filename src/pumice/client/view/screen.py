"""A terminal whose last lines stay in place: what is printed scrolls above them.

They are drawn only if logs and messages go to terminals or files. A pipe may end on the same terminal, where its output
would mix with them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Final, TextIO

from msgspec import Struct

from pumice.client.view.output import cells
from pumice.client.view.terminal import write_own
from pumice.model.text import COLOUR, escaped_log

_RESET: Final = "\x1b[0m"
_FALLBACK: Final = (80, 24)


class Screen(Struct):
    """`logs` is what programs may read, `messages` is for people."""

    logs: TextIO
    messages: TextIO
    terminal: TextIO | None = None  # that shows the last lines; None: they are not drawn
    _last: tuple[str, ...] = ()
    _drawn: int = 0

    @classmethod
    def of(cls, logs: TextIO, messages: TextIO) -> Screen:
        pairs = ((messages, logs), (logs, messages)) if os.environ.get("TERM") != "dumb" else ()
        found = (one for one, other in pairs if one.isatty() and (other.isatty() or _is_file(other)))
        return cls(logs, messages, next(found, None))

    def print(self, lines: Sequence[str], *, message: bool = False) -> None:
        """Print lines that scroll. The last lines disappear until the next `draw`.

        A log line is printed on a terminal with its colours, and elsewhere as it was written.
        """
        self._erase()
        stream = self.messages if message else self.logs
        if message or not stream.isatty():
            stream.write("".join(f"{line}\n" for line in lines))
        else:
            write_own(stream, "".join(f"{escaped_log(line)}\n" for line in lines))
        stream.flush()

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the lines that stay below all others."""
        if self.terminal is None or (self._drawn and tuple(lines) == self._last):
            return
        self._erase()
        self._last, self._drawn = tuple(lines), len(lines)
        if lines:
            width = self.size()[0] - 1
            write_own(self.terminal, "\n".join(clipped(escaped_log(line), width) for line in lines))
            self.terminal.flush()

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size((self.terminal or self.messages).fileno())
        except (OSError, ValueError):
            return _FALLBACK
        return (found.columns or _FALLBACK[0], found.lines or _FALLBACK[1])

    def _erase(self) -> None:
        if self._drawn and self.terminal is not None:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            write_own(self.terminal, f"\r{up}\x1b[J")
            self.terminal.flush()
        self._drawn = 0


def clipped(text: str, width: int) -> str:
    """Cut a text to the columns of a terminal; its colours stay."""
    text = text.expandtabs()
    shown, left, index = [], width, 0
    while index < len(text):
        if colour := COLOUR.match(text, index):
            shown.append(colour[0])
            index = colour.end()
            continue
        left -= cells(text[index])
        if left < 0:
            break
        shown.append(text[index])
        index += 1
    cut = index < len(text)
    return "".join(shown) + (_RESET if cut and "\x1b" in text else "")


def _is_file(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    # /dev/null is a device, and shows as little as a file.
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)
