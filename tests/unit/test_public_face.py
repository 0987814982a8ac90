"""The package's public names exist, and are all that the type checker is told about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pumice


@pytest.mark.parametrize("name", pumice.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(pumice, name).__name__ == {"Policy": "LifecyclePolicy"}.get(name, name)


def test_the_type_checker_knows_the_same_names() -> None:
    told = re.findall(r"import (\w+) as \1$", Path(pumice.__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(pumice.__all__)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pumice.nonsense  # noqa: B018 - the attribute is what is tested
