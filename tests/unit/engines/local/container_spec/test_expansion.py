from __future__ import annotations

import pytest

from pumice.engines.local.container_spec.expansion import expand, expand_all, unknown_references

VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": "", "with space": "s", "$(A": "odd"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)", ""),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
        ("$", "$"),
        ("a$", "a$"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$(A $$", "$(A $"),
        ("$()", "$()"),
        ("$(with space)", "s"),
        ("$($(A))", "odd)"),
        ("$(\n)", "$(\n)"),
        ("price: $5", "price: $5"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


def test_expand_all() -> None:
    assert expand_all(["$(A)", "b"], VARIABLES) == ("1", "b")


def test_unknown_references() -> None:
    assert unknown_references("$(A) $(X) $$(Y) $(Z)", VARIABLES) == ["X", "Z"]
