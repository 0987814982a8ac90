"""The tables in `data/` hold what kubectl's reader (sigs.k8s.io/yaml 1.6.0) made of each text, asked once by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.yaml.reader import parse
from pumice.yaml.scalars import as_json_number, resolve, resolve_tagged

DATA = Path(__file__).parent / "data"
REFUSED = "refused"
LOADERS = [pytest.param(yaml.CLoader, id="C"), pytest.param(yaml.Loader, id="Python")]


def table(name: str) -> list[Any]:
    rows = json.loads((DATA / f"{name}.json").read_text())
    return [pytest.param(row[0], REFUSED if row[1] == REFUSED else row[2], id=repr(row[0])) for row in rows]


def same(left: object, right: object) -> bool:
    """Equal in value and in type, so that 1, 1.0 and true are three things."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def test_every_scalar_means_what_kubectl_reads() -> None:
    rows = [row.values for row in table("kubectl_scalars")]
    assert len(rows) > 800
    wrong = []
    for text, expected in rows:
        found = resolve(str(text))
        refused = isinstance(found, float) and not math.isfinite(found)
        if not (refused if expected == REFUSED else same(found, expected)):
            wrong.append((text, found, expected))
    assert wrong == []


@pytest.mark.parametrize(("text", "expected"), table("kubectl_tagged_scalars"))
def test_a_tagged_scalar_means_what_kubectl_reads(text: str, expected: object) -> None:
    documents, problems = parse(f"a: {text}", "f")
    if expected == REFUSED:
        assert [(problem.where.line, problem.where.column) for problem in problems] == [(1, 4)]
    else:
        assert problems == []
        [(value, _)] = documents
        assert same(value, {"a": expected}), value


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(("text", "expected"), table("kubectl_documents"))
def test_a_document_means_what_kubectl_reads(text: str, expected: object, loader: type) -> None:
    documents, problems = parse(text, "f", loader)
    if expected == REFUSED or text in REFUSED_HERE or (loader is yaml.Loader and text in PYTHON_PARSER_REFUSES):
        assert problems
    else:
        assert problems == []
        [(value, _)] = documents
        assert same(value, expected), value


# kubectl's reader lets a key twice through, the second given by an alias of the first.
REFUSED_HERE = {"&k a: 1\n*k : 2"}
# The parser in Python takes no tabs between things, the one in C does.
PYTHON_PARSER_REFUSES = {"a:\tb", "a: b\t# c", '{\n\t"a": 1,\n\t"b": [\n\t\t1\n\t]\n}'}


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(1000.0, 1000, id="whole"),
        pytest.param(-0.0, 0, id="minus nothing"),
        pytest.param(0.5, 0.5, id="fraction"),
        pytest.param(1e20, 10**20, id="large and whole"),
        pytest.param(1e21, 1e21, id="from here on JSON writes an exponent"),
        pytest.param(2.0**64, 18446744073709552000, id="shortest digits, not the exact binary value"),
    ],
)
def test_floats_pass_through_json(number: float, expected: float) -> None:
    assert same(as_json_number(number), expected)


def test_a_tag_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"4\.0"):
        resolve_tagged("int", "4.0")
