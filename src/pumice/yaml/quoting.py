"""How one text or number is written in YAML so that every reader takes it for what it is.

Readers of YAML 1.1 (PyYAML, kubectl) and 1.2 (most others) disagree on what an unquoted word means. Text stays unquoted
only where all of them agree that it is text: neither `no` nor `1:30` nor `0o17` nor `2024-01-01`.
"""

from __future__ import annotations

import math
import re
from json.encoder import encode_basestring
from typing import Final

# Words that some reader takes for a boolean or null, in any mixture of capitals.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan"})
_NUMBER_LIKE: Final = re.compile(
    r"""(?x)
      [0-9][0-9_,]* (?:\.[0-9_]*)? (?:[eE][-+]?[0-9_]*)?   # decimal
    | 0[xXoObB] [-+]? [0-9a-fA-F_]*                        # other bases
    | [0-9][0-9_]* (?::[0-9_]+)+ (?:\.[0-9_]*)?            # base 60
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2} .*                    # date and time
    """
)
# Characters that cannot stand in YAML text as they are, or that readers of different versions see differently.
_NEEDS_ESCAPE: Final = re.compile(
    "[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]"
)
_PLAIN: Final = re.compile(
    r"(?:[A-Za-z0-9_/$(\\]|--?[A-Za-z]|\.{1,2}/|\.[A-Za-z]|[^\W\x00-\x7f])"  # how it may begin
    r"(?:[^\s:#]|:(?=[^\s])|(?<=[^\s])\#|[ ](?=[^\s#]))*\Z"  # no `: `, no ` #`, no space at the end
)


def plain_or_quoted(text: str) -> str:
    """Text on one line: as it is where that is safe, else in quotes."""
    if _PLAIN.match(text) and text.lower() not in _WORDS and not _NUMBER_LIKE.fullmatch(text):
        return text if not _NEEDS_ESCAPE.search(text) else _double_quoted(text)
    if ('"' in text or "\\" in text) and "\n" not in text and "\t" not in text and not _NEEDS_ESCAPE.search(text):
        # JSON inside a value stays readable in single quotes.
        return "'" + text.replace("'", "''") + "'"
    return _double_quoted(text)


def literal_block(text: str, indent: str) -> str | None:
    """Text of several lines as a `|` block whose lines start with `indent`; None where such a block cannot hold it."""
    if "\n" not in text or not text.strip("\n \t") or _NEEDS_ESCAPE.search(text):
        return None
    # A reader takes the block's indentation from its first line; one that is blank or indented would mislead it.
    header = "|2" if text[0] in " \t\n" else "|"
    if not text.endswith("\n"):
        header += "-"
    elif text.endswith("\n\n"):
        header += "+"
    lines = text.removesuffix("\n").split("\n")
    return header + "".join("\n" + indent + line if line else "\n" for line in lines)


def number(value: float) -> str:
    """A float with a point and a sign in its exponent, without which readers of YAML 1.1 see text."""
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
