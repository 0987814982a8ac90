"""The rules of `.gitignore` and `.pumiceignore`. A pod can write them, so a match takes bounded time.

A `*` never goes back: it takes the shortest text that lets what follows it match, which suffices for shell patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

LARGEST: Final = 256 << 10  # bytes of a file of rules
_MOST_RULES: Final = 5000
_LONGEST: Final = 1024


class Rule(Struct, frozen=True):
    base: str  # the directory of its file, "" or with a slash at its end
    parts: tuple[str, ...]  # of the pattern; one without a slash matches names anywhere below `base`
    anchored: bool
    directories: bool  # matches only directories
    negated: bool

    def matches(self, path: str, name: str, *, is_directory: bool) -> bool:
        if self.directories and not is_directory:
            return False
        if not self.anchored:
            return _matches_name(self.parts[0], name)
        return path.startswith(self.base) and _matches_parts(self.parts, path[len(self.base) :].split("/"))


def read_rules(content: bytes, base: str = "") -> tuple[Rule, ...]:
    """Return the rules of a file; `base` is its directory, relative to the top."""
    base = f"{base}/" if base else ""
    lines = content[:LARGEST].decode("utf-8", "surrogateescape").removeprefix("\ufeff").splitlines()
    rules = (_rule(line, base) for line in lines[:_MOST_RULES] if len(line) <= _LONGEST)
    return tuple(rule for rule in rules if rule is not None)


def is_ignored(rules: Sequence[Rule], path: str, *, is_directory: bool) -> bool:
    """Whether the last rule that matches ignores the path. The directories above it are known not to be ignored."""
    name = path.rpartition("/")[2]
    for rule in reversed(rules):
        if rule.matches(path, name, is_directory=is_directory):
            return not rule.negated
    return False


def _rule(line: str, base: str) -> Rule | None:
    line = line.rstrip("\r")
    plain = line.rstrip(" ")
    line = f"{plain} " if plain.endswith("\\") and plain != line else plain
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line.removeprefix("!")
    directories = line.endswith("/")
    line = line.rstrip("/") if directories else line
    anchored = "/" in line
    parts = tuple("**" if len(part) > 1 and set(part) == {"*"} else part for part in line.split("/") if part)
    return Rule(base, parts, anchored, directories, negated) if parts else None


def _matches_parts(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Match the parts of a path; `**` stands for any number of them, at the end for at least one."""
    reached = {0}  # how many parts of the path the pattern so far can have used
    for number, part in enumerate(pattern):
        if part == "**":
            least = 1 if number == len(pattern) - 1 else 0
            first = min(reached, default=len(path)) + least
            reached = set(range(first, len(path) + 1))
        else:
            reached = {used + 1 for used in reached if used < len(path) and _matches_name(part, path[used])}
    return len(path) in reached


def _matches_name(pattern: str, name: str) -> bool:
    if not any(character in pattern for character in "*?[\\"):
        return pattern == name
    compiled = _compiled(pattern)
    return compiled is not None and compiled.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """None for a pattern that matches nothing."""
    parts, fixed, position = [], "", 0
    while position < len(pattern):
        character = pattern[position]
        if character == "*":
            parts.append(fixed)
            fixed = ""
            position += len(pattern[position:]) - len(pattern[position:].lstrip("*"))
            continue
        if character == "\\":
            position += 1
            fixed += re.escape(pattern[position : position + 1])
        elif character == "[":
            end = pattern.find(
                "]", position + 3 if pattern[position + 1 : position + 2] in ("!", "^") else position + 2
            )
            if end < 0:
                return None
            content = pattern[position + 1 : end]
            negation = "^" if content[:1] in ("!", "^") else ""
            inner = re.sub(r"[\\[^&|~]|-(?=-)", r"\\\g<0>", content[len(negation) :])
            fixed += f"[{negation}{inner}]"
            position = end
        else:
            fixed += "." if character == "?" else re.escape(character)
        position += 1
    first, *others = (*parts, fixed)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    text = first + middle + (f".*{others[-1]}" if others else "")
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        return None
