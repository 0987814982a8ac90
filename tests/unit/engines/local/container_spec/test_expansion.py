from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def reference(text: str, variables: dict[str, str]) -> str:
    """The rules of Kubernetes, character by character."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            out, at = out + text[at], at + 1
        elif text[at + 1] == "$":
            out, at = out + "$", at + 2
        elif text[at + 1] == "(" and ")" in text[at:]:
            end = text.index(")", at)
            out, at = out + variables.get(text[at + 2 : end], text[at : end + 1]), end + 1
        else:
            out, at = out + text[at : at + 2], at + 2
    return out


@given(st.text(alphabet="$()AB x", max_size=20))
def test_expand_follows_the_rules(text: str) -> None:
    assert expand(text, VARIABLES) == reference(text, VARIABLES)
