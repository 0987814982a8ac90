"""`$(VAR)` in a pod's variables, commands, arguments and sub-paths, replaced as Kubernetes replaces it.

`$$` is a plain `$`, so `$$(VAR)` stands for the text `$(VAR)`. What names no variable stays as it is, and what was put
in is not looked at again.
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
    """The names in `$(...)` that would stay as they are."""
    names = (match[2] for match in _REFERENCE.finditer(text) if match[1] is None)
    return [name for name in names if name not in variables]
