"""Shell scripts, as far as arguments of a program need them: their commands, and whether they use `"$@"`.

It reads what people write after `sh -c`. It is no shell: what it does not understand it takes as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

USE: Final = '"$@"'
# What a word is made of: plain characters, quoted ones, and what a shell replaces.
_PART: Final = (
    r"""[^\s;&|()<>'"\\$`]|\\.|'[^']*'|"(?:[^"\\]|\\.)*"|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^}]*\}|\$"""
)
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>[^\S\n]+|\\\n)
    | (?P<comment>\#[^\n]*)
    | (?P<redirect>&>>?|\d*(?:<<-|<<<|<<|<>|>>|>\||[<>])&?)
    | (?P<operator>\n|;|&|\||\(|\))
    | (?P<word>(?:{_PART}|\S)(?:{_PART})*)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTING: Final = re.compile(r"\\(.)|['\"]", re.DOTALL)
# What a shell does not expand: text in single quotes, after a backslash, and comments.
_LITERAL: Final = re.compile(r"""("(?:[^"\\]|\\.)*")|'[^']*'|\\.|(?<!\S)\#[^\n]*""", re.DOTALL)
_ALL: Final = re.compile(r"\$\{?[@*]|\bgetopts\b|\bfor\s+\w+\s*(?:;|\n|\s)\s*do\b")
_SHIFT: Final = re.compile(r"\bshift\b")
_ONE: Final = re.compile(r"\$([1-9])|\$\{([1-9][0-9]{0,3})")


class ShellCommand(Struct, frozen=True):
    """One command of a script. `end` is where its last word ends, before a redirection."""

    words: tuple[str, ...]
    text: str
    end: int


def uses_arguments(script: str) -> bool:
    """Return whether a script reads its arguments: `$@`, `$*`, `$1`, or `getopts`."""
    return count_arguments(script) != 0


def count_arguments(script: str) -> int | None:
    """Return how many of its arguments a script reads, by number; None if it reads all of them."""
    expanded = _LITERAL.sub(lambda match: match[1] or "", script)
    if _ALL.search(expanded):
        return None
    highest = max((int(match[1] or match[2]) for match in _ONE.finditer(expanded)), default=0)
    return None if highest and _SHIFT.search(expanded) else highest


def commands(script: str) -> Iterator[ShellCommand]:
    """Yield the commands of a script, in its order."""
    words: list[str] = []
    start = end = position = 0
    is_target, ends_at = False, ""  # the next word is where a redirection leads; the word that ends a document
    while match := _TOKEN.match(script, position):
        position = match.end()
        kind, text = match.lastgroup, match[0]
        if kind == "redirect":
            is_target, ends_at = True, "<<" if text in ("<<", "<<-") else ends_at
        elif kind == "word" and is_target:
            is_target, ends_at = False, _unquoted(text) if ends_at == "<<" else ends_at
        elif kind == "word":
            start = match.start() if not words else start
            words.append(_unquoted(text))
            end = match.end()
        elif kind == "operator":
            if words:
                yield ShellCommand(tuple(words), script[start:end], end)
            words, is_target = [], False
            if text == "\n" and ends_at:
                position, ends_at = _after_document(script, position, ends_at), ""
    if words:
        yield ShellCommand(tuple(words), script[start:end], end)


def changed_line(script: str, command: ShellCommand) -> tuple[str, str]:
    """Return the line on which a command ends, as it is and with the arguments at the end of the command."""
    begin = script.rfind("\n", 0, command.end) + 1
    line = script[begin:].partition("\n")[0]
    at = command.end - begin
    return line.strip(), f"{line[:at]} {USE}{line[at:]}".strip()


def _unquoted(word: str) -> str:
    return _QUOTING.sub(lambda match: match[1] or "", word)


def _after_document(script: str, position: int, word: str) -> int:
    """Return where the script goes on after a here-document."""
    match = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE).search(script, position)
    return len(script) if match is None else match.end()
