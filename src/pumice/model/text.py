"""Text for people: lists of words, and untrusted text made safe for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Some clients create one task per pod; a thousand names would bury the message.
_MOST: Final = 12


def listed(words: Sequence[str], conjunction: str = "or") -> str:
    """Join words: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def some(words: Sequence[str], separator: str = ", ") -> str:
    """Join words; of many, only the first dozen."""
    return separator.join(words if len(words) <= _MOST else [*words[: _MOST - 1], "..."])


def printable(text: str, longest: int = 1000) -> str:
    """Return untrusted text shortened, on one line, and without control sequences for a terminal."""
    shown = text if len(text) <= longest else text[: longest - 3] + "..."
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)
