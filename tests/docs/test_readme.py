"""What the front page says about versions is what the code and the tests have."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from pumice.cli.main import COMMANDS
from pumice.model import VERSION
from tests.docs.markdown import blocks
from tests.meta.tree import ROOT, SOURCE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]


def _row(page: Path, first: str) -> str:
    [row] = re.findall(rf"^\| {first} \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return str(row)


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_supported_versions(page: Path) -> None:
    tested = json.loads((SOURCE / "data" / "kubernetes.json").read_text())["kubernetes"]
    assert f"k8s.io/kubernetes {tested}\n" in (ROOT / "tests" / "cluster" / "programs" / "go.mod").read_text()
    kubernetes = re.findall(r"\d+\.\d+(?:\.\d+)?", _row(page, "Kubernetes"))
    operations = (ROOT / "docs" / "guides" / "operations.md").read_text(encoding="utf-8")
    assert kubernetes == ["1.25", tested.removeprefix("v"), "1.36"]
    assert "| Kubernetes | 1.25 or newer; `native` gangs need 1.36 and its feature gates |" in operations

    [commit] = re.findall(r"`([0-9a-f]{9})`", _row(page, "Volcano"))
    assert f"(commit {commit})" in (ROOT / "tests" / "conformance" / "test_volcano_lives.py").read_text()

    classifiers = [line.rpartition(":: ")[2] for line in PROJECT["classifiers"]]
    assert re.findall(r"\d\.\d+", _row(page, "Python")) == [
        name for name in classifiers if re.fullmatch(r"3\.\d+", name)
    ]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_state_of_the_project_names_its_version(page: Path) -> None:
    assert f" {VERSION}" in page.read_text(encoding="utf-8").partition("| | ")[2]


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_the_table_has_commands_that_exist(page: Path) -> None:
    rows = re.findall(r"^\| (`pumice .*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = [word.removeprefix("pumice ").split()[0] for row in rows for word in re.findall(r"`([^`]+)`", row)]
    assert {"init", "run", "logs", "validate", "install"} <= set(named) <= set(COMMANDS)


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_every_guide_is_listed(page: Path) -> None:
    folder = "docs/guides/zh" if page.name == "README.zh.md" else "docs/guides"
    assert f"]({folder}/README.md)" in page.read_text(encoding="utf-8")
    index = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    guides = sorted(file.name for file in (ROOT / folder).glob("*.md") if file.name != "README.md")
    lines = re.findall(r"^- \[[^]]+\]\(([^)]+)\)(?:: |\uff1a)\S.+[.\u3002]$", index, re.MULTILINE)
    assert sorted(lines) == guides


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_a_job_file_stands_above_the_picture(page: Path) -> None:
    above = page.read_text(encoding="utf-8").partition("![")[0]
    [job] = [block for block in blocks(page) if block.text in above]
    assert job.language == "yaml"
    assert len(job.text.splitlines()) <= 15


def test_every_way_to_install_is_tested() -> None:
    tested = (ROOT / "tests" / "meta" / "test_dist.py").read_text()
    text = READMES[0].read_text(encoding="utf-8")
    shown = [line for block in blocks(READMES[0]) for line in block.text.splitlines() if "install ." in line]
    shown += re.findall(r"`(\S[^`]* install \.)`", text)
    assert sorted(shown) == ["pip install .", "pipx install .", "uv tool install ."]
    assert [way for way in shown if f'id="{way}"' not in tested] == []
