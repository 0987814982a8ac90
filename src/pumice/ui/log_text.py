"""Takes the text of a log line apart: of escape sequences only colours, and what a search found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

SGR: Final = re.compile("\x1b\\[([0-9;]{0,40})m")
NORMAL, BRIGHT = range(30, 38), range(90, 98)
NO_WEIGHT, NO_COLOUR = 22, 39


def message_parts(text: str, q: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts of a line with the classes of their colours. Every second piece of a part is a match of `q`."""
    pattern = re.compile(f"({re.escape(q)})", re.IGNORECASE) if q else None
    style: tuple[str, ...] = ()
    at = 0
    for match in [*SGR.finditer(text), None]:
        part = text[at : match.start() if match else len(text)]
        if part:
            yield " ".join(style), pattern.split(part) if pattern else [part]
        if match:
            style, at = sgr(style, match[1]), match.end()


def sgr(style: tuple[str, ...], codes: str) -> tuple[str, ...]:
    """Return the classes after an escape sequence for colours: bold, dim and the 16 colours."""
    for code in codes.split(";"):
        value = int(code or "0")
        if value == 0:
            style = ()
        elif value in {1, 2}:
            weight = "a-b" if value == 1 else "a-d"
            style = style if weight in style else (*style, weight)
        elif value == NO_WEIGHT:
            style = tuple(each for each in style if each not in {"a-b", "a-d"})
        elif value in NORMAL or value in BRIGHT or value == NO_COLOUR:
            style = tuple(each for each in style if not each.startswith("a-c"))
            style = style if value == NO_COLOUR else (*style, f"a-c{value % 10}")
        elif value in {38, 48}:  # a colour by number: its parameters follow, and no later one is a code
            return style
    return style
