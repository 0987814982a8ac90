"""The page on how Pumice is built speaks of files that exist and of packages as they are."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.meta.tree import ROOT, SOURCE

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:\w+/)+[\w.]*)`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_what_the_page_names_exists(name: str) -> None:
    assert (ROOT / name).exists() or (SOURCE / name).exists()


def test_every_package_is_described() -> None:
    packages = sorted(folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").is_file())
    assert sorted(re.findall(r"^\| `src/pumice/(\w+)/` \|", PAGE, re.MULTILINE)) == packages


def test_the_layers_are_those_that_the_linter_keeps() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    drawing = PAGE.split("```text\n")[1].split("```")[0]
    assert re.findall(r"^ *(\w+(?: \| \w+)?) {2,}", drawing, re.MULTILINE) == layers
