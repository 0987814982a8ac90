"""Every difference that the page claims is shown by a test that exists."""

from __future__ import annotations

import ast
import re

from tests.meta.tree import ROOT

PAGE = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not re.match(r"\| (---|What|Field)", line)]

# Defects of Volcano's life cycle, plugins, names and rules; 34 and 38 to 47 are about its other programs, its messages
# and its speed.
BEATEN = {*range(1, 38), *range(48, 56)} - {34}


def test_every_test_that_the_page_names_exists() -> None:
    missing = []
    for file, test in NAMED:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        if test not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}:
            missing.append(f"{file}::{test}")
    assert missing == []


def test_every_row_names_its_test() -> None:
    assert [row for row in ROWS if not re.search(r"`[\w/]+\.py::\w+` \|$", row)] == []


def test_every_known_defect_is_named() -> None:
    named = re.findall(r"\[(\d+(?:, \d+)*)\]", PAGE)
    assert {int(number) for numbers in named for number in numbers.split(", ")} == BEATEN
