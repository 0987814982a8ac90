"""The pages about the code name files that exist, and the packages and layers as they are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, SOURCE

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Page, heading of the table, and the folders that its paths start from.
TABLES = (
    ("docs/architecture.md", "## To change something", (ROOT, SOURCE)),
    ("tests/README.md", "## Where a behaviour is tested", (ROOT / "tests",)),
)


def _missing(names: list[str], folders: tuple[Path, ...]) -> list[str]:
    return [name for name in names if not any((folder / name).exists() for folder in folders)]


def test_every_file_that_the_page_names_exists() -> None:
    assert _missing(re.findall(r"`((?:\w+/)+[\w.]*)`", PAGE), (ROOT, SOURCE)) == []


@pytest.mark.parametrize(("page", "heading", "folders"), TABLES, ids=lambda part: part if isinstance(part, str) else "")
def test_every_row_of_a_table_names_files_that_exist(page: str, heading: str, folders: tuple[Path, ...]) -> None:
    table = (ROOT / page).read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        names = re.findall(r"`([\w./]+)`", row[2])
        assert names, f"{page}: {row[1].strip()}: names no file"
        assert _missing(names, folders) == [], f"{page}: {row[1].strip()}"


def test_every_package_is_described() -> None:
    packages = sorted(folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file())
    assert sorted(re.findall(r"^\| `src/pumice/(\w+)/` \|", PAGE, re.MULTILINE)) == packages


def test_the_layers_are_those_of_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["name"] == "Imports only point down"]
    drawing = PAGE.split("```text\n")[1].split("```")[0]
    assert re.findall(r"^ *(\w+(?: \| \w+)?) {2,}", drawing, re.MULTILINE) == layers
