"""What changed in the code of a run since it was submitted."""

from __future__ import annotations

from typing import Final

import msgspec

_SHOWN: Final = 3
MOST_NAMED: Final = 20
_NOT_COMPARED: Final = "there was no time to compare all of the code with what was submitted"


class CodeChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An attempt began with other files than were submitted."""

    files: tuple[str, ...]  # the first of them
    count: int
    is_complete: bool = True  # false: there was no time to compare the others


def code_change_text(change: CodeChange) -> str:
    """`code changed since it was submitted: train.py, 2 more`."""
    words = code_change_words(change)
    return f"code {words}" if change.files else words


def code_change_words(change: CodeChange) -> str:
    """Return the text for a row that is called `code`."""
    if not change.files:
        return _NOT_COMPARED
    names = ", ".join(change.files[:_SHOWN])
    more = change.count - len(change.files[:_SHOWN])
    changed = f"changed since it was submitted: {names}" + (f", {more} more" if more else "")
    return changed if change.is_complete else f"{changed}; {_NOT_COMPARED}"
