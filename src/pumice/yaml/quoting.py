"""Write a string or number in YAML so that every reader reads the same value.

Readers of YAML 1.1 (PyYAML, kubectl) and 1.2 (most others) disagree about unquoted words. A string stays unquoted only
if all of them read it as a string; `no`, `1:30`, `0o17` and `2024-01-01` are quoted.
"""

from __future__ import annotations

import math
import re
from json.encoder import encode_basestring
from typing import Final

from pumice.model.text import HIDDEN_CHARACTERS

# Words that some reader takes for a boolean or null, in any case.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"})
_NUMBER_LIKE: Final = re.compile(
    r"""(?x)
      [0-9][0-9_,]* (?:\.[0-9_]*)? (?:[eE][-+]?[0-9_]*)?   # decimal
    | 0[xXoObB] [-+]? [0-9a-fA-F_]*                        # other bases
    | [0-9][0-9_]* (?::[0-9_]+)+ (?:\.[0-9_]*)?            # base 60
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} .*                    # date and time
    """
)
# Characters that YAML does not allow unescaped, that its versions treat differently, or that a terminal would obey.
_NEEDS_ESCAPE: Final = re.compile(
    f"[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[{HIDDEN_CHARACTERS}]"
)
_PLAIN: Final = re.compile(
    r"(?:[A-Za-z0-9_/$(\\]|--?[A-Za-z]|\.{1,2}/|\.[A-Za-z]|[^\W\x00-\x7f])"  # how it may begin
    r"(?:[^\s:#]|:(?=[^\s])|(?<=[^\s])\#|[ ](?=[^\s#]))*\Z"  # no `: `, no ` #`, no space at the end
)


def plain_or_quoted(text: str) -> str:
    """Return a string on one line, quoted if necessary."""
    if _PLAIN.match(text) and text.lower() not in _WORDS and not _NUMBER_LIKE.fullmatch(text):
        return text if not _NEEDS_ESCAPE.search(text) else _double_quoted(text)
    if ('"' in text or "\\" in text) and "\n" not in text and "\t" not in text and not _NEEDS_ESCAPE.search(text):
        # JSON is more readable in single quotes.
        return "'" + text.replace("'", "''") + "'"
    return _double_quoted(text)


def literal_block(text: str, indent: str) -> str | None:
    """Return a multi-line string as a `|` block with this indentation; None if a block cannot represent it."""
    if "\n" not in text or not text.strip("\n \t") or _NEEDS_ESCAPE.search(text):
        return None
    # Readers detect the indentation from the first line, so a blank or indented one needs an explicit indicator.
    header = "|2" if text[0] in " \t\n" else "|"
    if not text.endswith("\n"):
        header += "-"
    elif text.endswith("\n\n"):
        header += "+"
    lines = text.removesuffix("\n").split("\n")
    return header + "".join("\n" + indent + line if line else "\n" for line in lines)


def number(value: float) -> str:
    """Return a float with a point and a signed exponent, which readers of YAML 1.1 require."""
    if not math.isfinite(value):
        raise ValueError(f"{value}: neither JSON nor Kubernetes has such a number")
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def _double_quoted(text: str) -> str:
    return _NEEDS_ESCAPE.sub(_escape, encode_basestring(text))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the largest code with four digits
