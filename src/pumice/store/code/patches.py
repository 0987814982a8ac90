"""The difference between two versions of a text, as `diff -u` writes it, and a text with it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

_CONTEXT: Final = 3
# Lines, and pairs of equal ones, that are compared one by one; more become one change. A pod may have written them.
_MOST_LINES: Final = 1000
_MOST_PAIRS: Final = 20_000
_NO_END: Final = "\\ No newline at end of file"
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def make_patch(before: bytes, after: bytes) -> str | None:
    """Return the hunks that make `after` of `before`; None if one of them is no text in UTF-8."""
    try:
        old, new = (_lines(text.decode()) for text in (before, after))
    except UnicodeDecodeError:
        return None
    if b"\0" in before or b"\0" in after:
        return None
    return "".join(line + "\n" for hunk in _hunks(old, new) for line in hunk)


def apply_patch(before: bytes, patch: str) -> bytes:
    """Return the text with its hunks. Raises ValueError if they do not fit."""
    old, new, position, added = _lines(before.decode()), list[str](), 0, False
    for line in patch.split("\n")[:-1]:
        if header := _HUNK.fullmatch(line):
            start = int(header[1]) - (header[2] != "0")
            if not position <= start <= len(old):
                raise ValueError("a hunk is elsewhere")
            new += old[position:start]
            position = start
        elif line == _NO_END:
            if new and added:
                new[-1] = new[-1].removesuffix("\n")
        elif line[:1] in (" ", "-"):
            added = False
            if position >= len(old) or old[position].removesuffix("\n") != line[1:]:
                raise ValueError("a line is another one")
            new += old[position : position + 1] if line[0] == " " else []
            position += 1
        elif line.startswith("+"):
            added = True
            new.append(f"{line[1:]}\n")
        else:
            raise ValueError("it is no patch")
    return "".join((*new, *old[position:])).encode()


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[str]]:
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    end = 0
    while end < min(len(old), len(new)) - same and old[-1 - end] == new[-1 - end]:
        end += 1
    first = max(0, same - _CONTEXT)
    ours, theirs = (lines[first : len(lines) - max(0, end - _CONTEXT)] for lines in (old, new))
    counts = Counter(theirs)
    if len(ours) + len(theirs) > _MOST_LINES or sum(counts[line] for line in ours) > _MOST_PAIRS:
        before, after = min(same, _CONTEXT), min(end, _CONTEXT)
        mine, other = len(ours) - after, len(theirs) - after
        groups = [
            [
                ("equal", 0, before, 0, before),
                ("replace", before, mine, before, other),
                ("equal", mine, len(ours), other, len(theirs)),
            ]
        ]
    else:
        groups = [*difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_grouped_opcodes(_CONTEXT)]
    for group in groups:
        _, old_start, _, new_start, _ = group[0]
        old_size, new_size = group[-1][2] - old_start, group[-1][4] - new_start
        lines = [f"@@ -{_range(old_start + first, old_size)} +{_range(new_start + first, new_size)} @@"]
        for tag, a, b, c, d in group:
            if tag == "equal":
                lines += _marked(" ", ours[a:b])
            else:
                lines += [*_marked("-", ours[a:b]), *_marked("+", theirs[c:d])]
        yield lines


def _range(start: int, size: int) -> str:
    return f"{start + 1 if size else start},{size}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield _NO_END
