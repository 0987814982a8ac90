"""What people read: several words in one sentence, and what others wrote as a terminal can show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Some clients make one task a pod; a thousand names would bury the message that lists them.
_MOST: Final = 12


def listed(words: Sequence[str], conjunction: str = "or") -> str:
    """`a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def some(words: Sequence[str], separator: str = ", ") -> str:
    """All of a few words; of many only the first."""
    return separator.join(words if len(words) <= _MOST else [*words[: _MOST - 1], "..."])


def printable(text: str, longest: int = 1000) -> str:
    """On one line and not for ever: what others wrote may hold line breaks, or commands for a terminal."""
    shown = text if len(text) <= longest else text[: longest - 3] + "..."
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)
