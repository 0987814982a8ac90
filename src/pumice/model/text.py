r"""Text for people: lists of words, sizes, and text of others made safe for a terminal.

`escaped`, `escaped_log` and `printable` are the only functions that do so. They write a hidden character as JSON does,
`\u202e`, so that JSON on a terminal stays the same data; one below the space, which JSON escapes itself, as `\x1b`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# Some clients create one task per pod; a thousand names would bury the message.
_MOST: Final = 12
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
# Characters above the space that a terminal obeys, or that make text look like other text: DEL and C1, marks and
# overrides of direction, ends of lines, invisible separators, byte order mark, annotations, lone surrogates, tags. Not
# the joiners, which scripts and emoji need. For a character class of a regular expression.
HIDDEN_CHARACTERS: Final = (
    "\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")  # Select Graphic Rendition: colours, bold and the like
_IN_LINE: Final = re.compile(f"[\x00-\x1f{HIDDEN_CHARACTERS}]")
_IN_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{HIDDEN_CHARACTERS}]")
# Of a log line: a sequence that moves the cursor or erases, or a character to escape.
_CONTROL_SEQUENCE: Final = r"\x1b\[[0-?]*[ -/]*[@-~]"
_IN_LOG: Final = re.compile(f"{_CONTROL_SEQUENCE}|{_IN_LINES.pattern}")
_RESET: Final = "\x1b[0m"
_CLOSING: Final = (_RESET, "\x1b[m")
_SPACE: Final = 0x20
_LAST_SHORT: Final = 0xFFFF  # the last character that JSON writes with four digits


def listed(words: Sequence[str], conjunction: str = "or") -> str:
    """Join words: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def some(words: Sequence[str], separator: str = ", ") -> str:
    """Join words; of many, only the first dozen."""
    return separator.join(words if len(words) <= _MOST else [*words[: _MOST - 1], "..."])


def size_text(size: int) -> str:
    """Format a number of bytes: `16 GiB`, `1.5 GiB`."""
    unit = 0
    while size >= _STEP ** (unit + 1) and unit < len(_UNITS) - 1:
        unit += 1
    return f"{size / _STEP**unit:.1f}".removesuffix(".0") + f" {_UNITS[unit]}"


def escaped(text: str, *, lines: bool = False) -> str:
    """Return text of others with its hidden characters escaped: on one line, or with `lines` as it is broken."""
    return (_IN_LINES if lines else _IN_LINE).sub(_escape, text)


def escaped_log(text: str) -> str:
    """Return a log line with its hidden characters escaped; its colours stay, and end with the line.

    Sequences that move the cursor or erase are left out: compilers and progress bars write them with every colour.
    """
    shown = _IN_LOG.sub(_escape_in_log, text)
    if "\x1b" not in shown:
        return shown
    return shown if COLOUR.findall(shown)[-1] in _CLOSING else shown + _RESET


def printable(text: str, longest: int = 1000) -> str:
    """Return text of others shortened, on one line, with its hidden characters escaped."""
    return escaped(text if len(text) <= longest else text[: longest - 3] + "...")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < _SPACE:
        return found[0].encode("unicode_escape").decode()
    if code <= _LAST_SHORT:
        return f"\\u{code:04x}"
    high, low = divmod(code - _LAST_SHORT - 1, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _escape_in_log(found: re.Match[str]) -> str:
    if len(found[0]) == 1:
        return _escape(found)
    return found[0] if COLOUR.fullmatch(found[0]) else ""
