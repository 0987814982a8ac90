"""The table of wanted changes, `changes.toml`: what goldens may say otherwise, and why.

A row is applied to what was recorded. A row that changes nothing is an error, so that the table stays honest.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec

TABLE: Final = Path(__file__).parent / "changes.toml"
HEAD: Final = """\
# Wanted changes of what is shown. README.md says how a row is written, and when rows are folded into the goldens.
"""
_MOST_LINES: Final = 40
_CONTEXT: Final = 3
Goldens = Mapping[str, Mapping[str, str]]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    r"""`golden` and `section` choose by shell patterns; `before` is plain text, `pattern` a regular expression.

    With `pattern`, `after` may name its groups: `\1`.
    """

    golden: str
    why: str
    after: str
    before: str = ""
    pattern: str = ""
    section: str = "*"

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if bool(self.before) is bool(self.pattern):
            raise ValueError("a row has either `before` or `pattern`")
        if len(self.why.split()) < 2:
            raise ValueError("`why` is a sentence")
        re.compile(self.pattern)

    def applies(self, golden: str, section: str) -> bool:
        # A title may have brackets, which mean something else in a pattern.
        return fnmatchcase(golden, self.golden) and (section == self.section or fnmatchcase(section, self.section))

    def apply(self, text: str) -> str:
        if self.before:
            return text.replace(self.before, self.after)
        return re.sub(self.pattern, self.after, text, flags=re.MULTILINE)


def read_rows(file: Path = TABLE) -> list[Row]:
    """Raises ValueError for a row that is not complete."""
    found: Any = tomllib.loads(file.read_text())
    return msgspec.convert(found.get("change", []), list[Row])


def changed(recorded: Goldens, rows: Sequence[Row]) -> tuple[dict[str, dict[str, str]], list[Row]]:
    """Return the goldens with all rows applied in order, and the rows that change nothing."""
    found = {name: dict(sections) for name, sections in recorded.items()}
    unused = []
    for row in rows:
        used = False
        for name, sections in found.items():
            for title, text in sections.items():
                if row.applies(name, title) and (new := row.apply(text)) != text:
                    sections[title], used = new, True
        if not used:
            unused.append(row)
    return found, unused


def report(golden: str, expected: Mapping[str, str], actual: Mapping[str, str]) -> str:
    """Return what differs, in a few lines, and the row that would make the first difference a wanted one."""
    lost = [f"  {title}" for title in expected if title not in actual]
    added = [f"  {title}" for title in actual if title not in expected]
    parts = ["\n".join(("no longer there:", *lost))] if lost else []
    if added:
        parts.append("\n".join(("not recorded (python -m tests.golden.record new):", *added)))
    different = [title for title in expected if actual.get(title, expected[title]) != expected[title]]
    lines, rows = list[str](), list[str]()
    for title in different:
        old, new = expected[title].splitlines(), actual[title].splitlines()
        compared = difflib.unified_diff(old, new, "recorded", "now", n=_CONTEXT, lineterm="")
        lines += [f"=== {title}", *list(compared)[2:]]
        rows += [] if rows else [_row(golden, title, old, new)]
    more = [f"... and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    parts += ["\n".join((*lines[:_MOST_LINES], *more))] if lines else []
    parts += [f"If the first of these is wanted, it is a row of changes.toml:\n\n{row}" for row in rows]
    return f"{golden}: {len(different)} sections differ\n" + "\n\n".join(parts)


def differences(expected: Goldens, actual: Goldens) -> list[tuple[str, str, list[str]]]:
    """Return which words have become which others, and in which goldens, the most frequent first."""
    found: dict[tuple[str, str], list[str]] = {}
    for golden, sections in expected.items():
        for title, text in sections.items():
            old, new = text.splitlines(), actual.get(golden, {}).get(title, "").splitlines()
            codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if old != new else []
            for kind, begin, end, new_begin, new_end in codes:
                pairs = zip_longest(old[begin:end], new[new_begin:new_end], fillvalue="")
                for pair in pairs if kind != "equal" else ():
                    found.setdefault(_words(*pair), []).append(golden)
    return sorted(((*words, goldens) for words, goldens in found.items()), key=lambda each: -len(each[2]))


def _words(old: str, new: str) -> tuple[str, str]:
    """Return the words in the middle that differ."""
    left, right = re.split(r"(\s+)", old.strip()), re.split(r"(\s+)", new.strip())
    while len(left) > 1 and len(right) > 1 and left[0] == right[0]:
        del left[0], right[0]
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        del left[-1], right[-1]
    return "".join(left).strip(), "".join(right).strip()


def _row(golden: str, title: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Return the row for the first difference of a section, with as many lines as make it occur once."""
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    _, begin, end, new_begin, new_end = next(code for code in codes if code[0] != "equal")
    text = "\n".join(old)

    def is_clear() -> bool:
        return begin < end and new_begin < new_end and text.count("\n".join(old[begin:end])) == 1

    while begin and not is_clear():
        begin, new_begin = begin - 1, new_begin - 1
    while end < len(old) and not is_clear():
        end, new_end = end + 1, new_end + 1
    before, after = ("\n".join(lines) for lines in (old[begin:end], new[new_begin:new_end]))
    lines = (f"golden = {_quoted(golden)}", f"section = {_quoted(title)}", f"before = {_quoted(before)}")
    return "\n".join(("[[change]]", *lines, f"after = {_quoted(after)}", 'why = ""'))


def _quoted(text: str) -> str:
    if "'" in text or "\n" in text or not text.isprintable():
        return (
            f"'''\n{text}'''"
            if "'''" not in text and text.replace("\n", "").isprintable()
            else msgspec.json.encode(text).decode()
        )
    return f"'{text}'"
