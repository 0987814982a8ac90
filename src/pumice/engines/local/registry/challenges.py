"""Parses `WWW-Authenticate`, by which a registry says how to authenticate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_LONGEST: Final = 8192
_WORD: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_PARAMETER: Final = re.compile(rf'[\s,]*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))')
_SCHEME: Final = re.compile(rf"[\s,]*({_WORD})(?:\s+|$)")


def challenges(headers: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the parameters of each scheme, in lower case; what cannot be parsed is left out."""
    found: dict[str, Mapping[str, str]] = {}
    for header in headers:
        position = 0
        while position < len(header) <= _LONGEST and (scheme := _SCHEME.match(header, position)):
            position = scheme.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(header, position):
                position = parameter.end()
                quoted = parameter[2]
                value = parameter[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                parameters.setdefault(parameter[1].lower(), value)
            found.setdefault(scheme[1].lower(), parameters)
    return found
