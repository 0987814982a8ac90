from __future__ import annotations

from pathlib import Path

from scripts.tree_report import SOURCE, report, shape, value_types

VALUES = '''
"""Values."""
import enum
from dataclasses import dataclass
from typing import (
    Any,
    NamedTuple,
)

import msgspec

@dataclass(frozen=True)
class Made: ...
class Stored(msgspec.Struct, frozen=True): ...
class Kind(enum.StrEnum): ...
class Pair(NamedTuple): ...
class Derived(Stored, frozen=True):
    def size(self) -> int:
        return 1
class Worker:
    async def work(self) -> None:
        def inner() -> Any:
            """Three."""
            return 1
        inner()
'''


def test_the_shape_of_a_module() -> None:
    values = value_types([VALUES])
    assert values == {"Made", "Stored", "Kind", "Pair", "Derived"}
    found = shape(VALUES, values)
    assert (found.lines, sorted(found.lengths), found.types, found.imports) == (25, [2, 3, 5], 5, 7)


def test_packages_are_added_up(tmp_path: Path) -> None:
    for name in ("top.py", "model/a.py", "model/b.py", "engines/local/deep/c.py", "engines/memory/d.py", "empty/e.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("" if "empty" in name else VALUES)
    rows = [line.split() for line in report(tmp_path)]
    assert [row[:4] for row in rows[1:]] == [
        ["empty", "1", "0", "0"],
        ["engines/local", "1", "25", "3"],
        ["engines/memory", "1", "25", "3"],
        ["model", "2", "50", "6"],
        [".", "1", "25", "3"],
        ["all", "6", "125", "15"],
    ]
    assert rows[-1][4:] == ["3", "5", "25", "200.0", "35", "28.0%"]


def test_the_source_has_its_packages() -> None:
    names = [line.split()[0] for line in report(SOURCE)]
    assert {"model", "engines/local", "cli", "all"} <= set(names)
