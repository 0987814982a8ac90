"""Plugins of third parties, found by entry points of modules that each test makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pumice.plugins.registry import BUILTINS
from pumice.runtime.discovery import GROUP, discover, discover_on_demand

GOOD = """
from dataclasses import dataclass
from typing import ClassVar
from pumice.plugins.base import Base, option

@dataclass(frozen=True, slots=True)
class Good(Base):
    name: ClassVar[str] = "good"
    level: int = option(1, "how much")

@dataclass(frozen=True, slots=True)
class Other(Base):
    name: ClassVar[str] = "other"

@dataclass(frozen=True, slots=True)
class Svc(Base):
    name: ClassVar[str] = "svc"

@dataclass(frozen=True, slots=True)
class OneWord(Base):
    name: ClassVar[str] = "good"
    requires: ClassVar = "svc"

class NoDataclass:
    name = "good"

@dataclass(frozen=True, slots=True)
class OddOption(Base):
    name: ClassVar[str] = "good"
    level: "Unheard" = option(1, "of a type that is not there")

thing = 5
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    (tmp_path / "pumice_test_good.py").write_text(GOOD, encoding="utf-8")
    (tmp_path / "pumice_test_raises.py").write_text("raise RuntimeError('out of order')", encoding="utf-8")
    (tmp_path / "pumice_test_exits.py").write_text("import no_such_module_at_all", encoding="utf-8")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


@pytest.mark.usefixtures("modules")
def test_a_good_plugin_comes_behind_the_built_in_ones() -> None:
    registry = discover([entry("other", "pumice_test_good:Other"), entry("good", "pumice_test_good:Good")])
    assert registry.broken == {}
    assert list(registry.plugins) == [*BUILTINS, "good", "other"]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("good", "pumice_test_raises:Good", "RuntimeError: out of order", id="module raises"),
        pytest.param(
            "good",
            "pumice_test_exits:Good",
            "ModuleNotFoundError: No module named 'no_such_module_at_all'",
            id="module needs another",
        ),
        pytest.param(
            "good", "pumice_test_none:Good", "ModuleNotFoundError: No module named 'pumice_test_none'", id="no module"
        ),
        pytest.param(
            "good",
            "pumice_test_good:Nothing",
            "AttributeError: module 'pumice_test_good' has no attribute 'Nothing'",
            id="no class",
        ),
        pytest.param(
            "good",
            "pumice_test_good:thing",
            "pumice_test_good:thing is not a dataclass that inherits from pumice.plugins.base.Base",
            id="no class but a number",
        ),
        pytest.param(
            "good",
            "pumice_test_good:NoDataclass",
            "pumice_test_good:NoDataclass is not a dataclass that inherits from pumice.plugins.base.Base",
            id="another class",
        ),
        pytest.param(
            "better",
            "pumice_test_good:Good",
            "pumice_test_good:Good calls itself 'good', its entry point 'better'",
            id="two names",
        ),
        pytest.param(
            "svc", "pumice_test_good:Svc", "pumice_test_good:Svc has the name of a built-in plugin", id="built-in name"
        ),
        pytest.param(
            "good",
            "pumice_test_good:OneWord",
            "pumice_test_good:OneWord: requires and example must be tuples of strings",
            id="a word for a tuple",
        ),
        pytest.param("good", "pumice_test_good:OddOption", "NameError: name 'Unheard' is not defined", id="odd option"),
    ],
)
def test_what_cannot_be_used_is_kept_with_the_reason(name: str, value: str, problem: str) -> None:
    registry = discover([entry(name, value), entry("other", "pumice_test_good:Other")])
    assert registry.broken == {name: problem}
    assert list(registry.third_party) == ["other"]


@pytest.mark.usefixtures("modules")
def test_of_two_with_one_name_the_first_counts() -> None:
    registry = discover([entry("good", "pumice_test_good:Good"), entry("good", "pumice_test_good:Other")])
    assert registry.broken == {"good": "pumice_test_good:Other has the name of another installed plugin"}
    assert [plugin.__name__ for plugin in registry.third_party.values()] == ["Good"]


def test_what_is_installed_is_looked_up() -> None:
    assert set(BUILTINS) <= set(discover().plugins)


def test_third_parties_are_looked_for_when_a_job_names_a_plugin_that_is_not_built_in(
    modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan of all installed packages takes longer than most commands."""
    scans: list[str] = []

    def installed(*, group: str) -> list[EntryPoint]:
        scans.append(group)
        return [entry("good", "pumice_test_good:Good"), entry("torn", "pumice_test_raises:Torn")]

    monkeypatch.setattr("importlib.metadata.entry_points", installed)
    registry = discover_on_demand()
    assert [type(each).name for each in registry.resolve({"pytorch": [], "svc": []}).plugins] == ["svc", "pytorch"]
    assert registry.with_required({"pytorch": []}).keys() == {"pytorch", "svc"}
    assert scans == []
    resolved = registry.resolve({"good": ["--level=2"], "svc": [], "torn": []})
    assert len(resolved.plugins) == 2
    assert ["out of order" in finding.message for finding in resolved.findings] == [True]
    assert list(registry.plugins)[-1] == "good"
    assert scans == [GROUP]
    assert modules.is_dir()
