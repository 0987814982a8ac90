r"""Text for people: lists of words, and text of others made safe for a terminal.

`escaped`, `escaped_log` and `printable` are the only functions that do so. They write a hidden character as JSON does,
`\u202e`, so that JSON on a terminal stays the same data; one below the space, which JSON escapes itself, as `\x1b`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

HIDDEN: Final = "***"  # stands for a secret value
# Some clients create one task per pod; a thousand names would bury the message.
_MOST: Final = 12
_QUOTED: Final = 40  # characters
# Characters above the space that a terminal obeys, or that make text look like other text: DEL and C1, marks and
# overrides of direction, ends of lines, invisible separators, byte order mark, annotations, lone surrogates, tags. Not
# the joiners, which scripts and emoji need. For a character class of a regular expression.
HIDDEN_CHARACTERS: Final = (
    "\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f"
)
COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")  # Select Graphic Rendition: colours, bold and the like
# Patterns, compiled when the first text is not printable as a whole: to compile them takes a millisecond.
_IN_LINE: Final = f"[\x00-\x1f{HIDDEN_CHARACTERS}]"
_IN_LINES: Final = f"[\x00-\x08\x0b-\x1f{HIDDEN_CHARACTERS}]"
# Of a log line: a sequence that moves the cursor or erases, or a character to escape.
_CONTROL_SEQUENCE: Final = r"\x1b\[[0-?]*[ -/]*[@-~]"
_IN_LOG: Final = f"{_CONTROL_SEQUENCE}|{_IN_LINES}"
_RESET: Final = "\x1b[0m"
_CLOSING: Final = (_RESET, "\x1b[m")
_SPACE: Final = 0x20
_LAST_SHORT: Final = 0xFFFF  # the last character that JSON writes with four digits


def listed(words: Sequence[str], conjunction: str = "or") -> str:
    """Join words: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def quoted(text: str) -> str:
    """Return text of others as Python writes it, cut off where it is long."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}..."


def plural(count: int, word: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def some(words: Sequence[str], separator: str = ", ") -> str:
    """Join words; of many, only the first dozen."""
    return separator.join(words if len(words) <= _MOST else [*words[: _MOST - 1], "..."])


def literal(word: str) -> str:
    """Return a word of a command as Kubernetes leaves it: it replaces `$(NAME)`, and reads `$$` as `$`."""
    return re.sub(r"\$(?=[$(])", "$$", word) if "$" in word else word


def shown_words(words: Sequence[str]) -> str:
    """Return the arguments of a program as they are typed; `***` stands for a value that is not shown."""
    return " ".join(word if word.endswith(HIDDEN) else shlex.quote(word) for word in words)


def escaped(text: str, *, lines: bool = False) -> str:
    """Return text of others with its hidden characters escaped: on one line, or with `lines` as it is broken."""
    # What Python calls printable has no hidden character.
    return text if text.isprintable() else re.sub(_IN_LINES if lines else _IN_LINE, _escape, text)


def escaped_log(text: str) -> str:
    """Return a log line with its hidden characters escaped; its colours stay, and end with the line.

    Sequences that move the cursor or erase are left out: compilers and progress bars write them with every colour.
    """
    if text.isprintable():
        return text
    shown = re.sub(_IN_LOG, _escape_in_log, text)
    if "\x1b" not in shown:
        return shown
    return shown if COLOUR.findall(shown)[-1] in _CLOSING else shown + _RESET


def printable(text: str, longest: int = 1000) -> str:
    """Return text of others shortened, on one line, with its hidden characters escaped."""
    return escaped(shortened(text, longest))


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


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
