"""Expands `$(VAR)` in variables, commands, arguments and sub-paths as Kubernetes does.

`$$` is a literal `$`, so `$$(VAR)` yields `$(VAR)`. References to unknown variables stay unchanged, and inserted values
are not expanded again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expand(text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return match[1] or variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def expand_all(texts: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(text, variables) for text in texts)


def unknown_references(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the names in `$(...)` that are no variables."""
    names = (match[2] for match in _REFERENCE.finditer(text) if match[1] is None)
    return [name for name in names if name not in variables]
