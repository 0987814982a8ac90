from __future__ import annotations

import io
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.yaml import writer
from pumice.yaml.reader import parse
from pumice.yaml.scalars import as_json_number
from pumice.yaml.writer import write_yaml


def written(*documents: object) -> str:
    out = io.StringIO()
    write_yaml(documents, out)
    return out.getvalue()


POD = {
    "kind": "Pod",
    "metadata": {"name": "a-0", "labels": {"volcano.sh/task-index": "0"}, "annotations": {}},
    "spec": {
        "containers": [
            {"name": "a", "command": ["sh", "-c", "echo one\necho two\n"], "args": [], "tty": True},
            {"name": "b", "env": [{"name": "RANK", "value": "1"}], "ports": [{"containerPort": 80}], "x": None},
        ],
        "matrix": [[1, 2], [[3]], [{}, []]],
    },
}
POD_TEXT = """\
kind: Pod
metadata:
  name: a-0
  labels:
    volcano.sh/task-index: "0"
  annotations: {}
spec:
  containers:
  - name: a
    command:
    - sh
    - -c
    - |
      echo one
      echo two
    args: []
    tty: true
  - name: b
    env:
    - name: RANK
      value: "1"
    ports:
    - containerPort: 80
    x: null
  matrix:
  - - 1
    - 2
  - - - 3
  - - {}
    - []
"""


def test_the_layout_is_that_of_kubectl() -> None:
    assert written(POD) == POD_TEXT


def test_documents_are_separated() -> None:
    assert written({"a": 1}, {"b": 2}, "c") == "a: 1\n---\nb: 2\n---\nc\n"
    assert written() == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="word"),
        pytest.param("two words", "two words", id="words"),
        pytest.param("a:b http://x:80/y#z", "a:b http://x:80/y#z", id="colons and hashes inside words"),
        pytest.param("--master=x", "--master=x", id="flag"),
        pytest.param("-c", "-c", id="short flag"),
        pytest.param("./run.sh", "./run.sh", id="path"),
        pytest.param(".ssh/id_rsa", ".ssh/id_rsa", id="hidden file"),
        pytest.param("$(VC_TASK_INDEX)", "$(VC_TASK_INDEX)", id="reference"),
        pytest.param("8Gi", "8Gi", id="quantity"),
        pytest.param("10.0.0.1", "10.0.0.1", id="address"),
        pytest.param("1.2.3", "1.2.3", id="version"),
        pytest.param("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000", id="uid"),
        pytest.param("中文", "中文", id="other scripts"),
        pytest.param('say "hi"', 'say "hi"', id="quotes inside"),
        pytest.param("", '""', id="empty"),
        pytest.param("1", '"1"', id="integer"),
        pytest.param("1_000", '"1_000"', id="underscores"),
        pytest.param("1.5", '"1.5"', id="float"),
        pytest.param("1e3", '"1e3"', id="exponent"),
        pytest.param(".5", '".5"', id="point first"),
        pytest.param("-1", '"-1"', id="negative"),
        pytest.param("+1", '"+1"', id="positive"),
        pytest.param("0o17", '"0o17"', id="octal of YAML 1.2"),
        pytest.param("0x1f", '"0x1f"', id="hexadecimal"),
        pytest.param("0b-1", '"0b-1"', id="binary with a sign"),
        pytest.param("1:30", '"1:30"', id="base 60"),
        pytest.param("2024-01-01", '"2024-01-01"', id="date"),
        pytest.param("2024-1-1 10:00:00", '"2024-1-1 10:00:00"', id="time"),
        pytest.param("No", '"No"', id="boolean of YAML 1.1"),
        pytest.param("y", '"y"', id="one letter"),
        pytest.param("TRUE", '"TRUE"', id="capitals"),
        pytest.param("null", '"null"', id="null"),
        pytest.param("~", '"~"', id="tilde"),
        pytest.param(".NaN", '".NaN"', id="not a number"),
        pytest.param("<<", '"<<"', id="merge key"),
        pytest.param("=", '"="', id="default key of YAML 1.1"),
        pytest.param("a: b", '"a: b"', id="colon and space"),
        pytest.param("a:", '"a:"', id="colon at the end"),
        pytest.param("a #b", '"a #b"', id="comment"),
        pytest.param(" a", '" a"', id="space first"),
        pytest.param("a ", '"a "', id="space last"),
        pytest.param("- a", '"- a"', id="list item"),
        pytest.param("---", '"---"', id="document marker"),
        pytest.param("[a]", '"[a]"', id="bracket"),
        pytest.param("*a", '"*a"', id="alias"),
        pytest.param("@a", '"@a"', id="reserved"),
        pytest.param('{"a": "b"}', '\'{"a": "b"}\'', id="JSON in single quotes"),
        pytest.param('"it\'s"', "'\"it''s\"'", id="both quotes"),
        pytest.param("a\tb", '"a\\tb"', id="tab"),
        pytest.param("a\x1bb", '"a\\u001bb"', id="control character"),
        pytest.param("a\x85b", '"a\\u0085b"', id="line break of YAML 1.1"),
        pytest.param("a\u2028b", '"a\\u2028b"', id="line separator"),
        pytest.param("\ufeffa", '"\\ufeffa"', id="byte order mark"),
        pytest.param("a\x7f\x9bb", '"a\\u007f\\u009bb"', id="DEL and C1"),
        pytest.param("a\u202e\u2066b", '"a\\u202e\\u2066b"', id="direction"),
        pytest.param("a\n\u202eb\n", '"a\\n\\u202eb\\n"', id="direction in a block"),
        pytest.param("a\U000e0041b", '"a\\U000e0041b"', id="tag"),
        pytest.param("👩\u200d🚀", '"👩\u200d🚀"', id="emoji with a joiner"),
        pytest.param("a\U0010fffeb", "a\U0010fffeb", id="far plane"),
        pytest.param("a\rb", '"a\\rb"', id="carriage return"),
    ],
)
def test_text_on_one_line(text: str, expected: str) -> None:
    assert written({"k": text}) == f"k: {expected}\n"
    assert written([text]) == f"- {expected}\n"
    assert written({text: 1}) == f"{expected}: 1\n"
    assert yaml.safe_load(written({text: text})) == {text: text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\nb\n", "|\n  a\n  b", id="one line break at the end"),
        pytest.param("a\nb", "|-\n  a\n  b", id="none at the end"),
        pytest.param("a\n\n\n", "|+\n  a\n\n", id="several at the end"),
        pytest.param("a\n\n b\n", "|\n  a\n\n   b", id="blank and indented lines"),
        pytest.param("  a\nb\n", "|2\n    a\n  b", id="first line indented"),
        pytest.param("\na", "|2-\n\n  a", id="first line blank"),
        pytest.param("\ta\nb\n", "|2\n  \ta\n  b", id="first line with a tab"),
        pytest.param("a: b # c\n---\n", "|\n  a: b # c\n  ---", id="the file is empty counts"),
        pytest.param("\n\n", '"\\n\\n"', id="only line breaks"),
        pytest.param(" \n", '" \\n"', id="only white space"),
        pytest.param("a\r\nb\n", '"a\\r\\nb\\n"', id="carriage returns cannot be kept in a block"),
        pytest.param("a\n\x00", '"a\\n\\u0000"', id="control characters neither"),
    ],
)
def test_text_of_several_lines(text: str, expected: str) -> None:
    assert written({"k": text}) == f"k: {expected}\n"
    deep = {"a": {"b": [{"c": text, "d": [text, [text, text]]}, text]}, "z": 1}
    for reader in (yaml.safe_load, lambda output: parse(output, "f")[0][0][0]):
        assert reader(written({"k": text, "l": 1})) == {"k": text, "l": 1}
        assert reader(written(deep)) == deep
        assert reader(written(text)) == text


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(1, "1", id="integer"),
        pytest.param(-(2**63), "-9223372036854775808", id="smallest"),
        pytest.param(0.5, "0.5", id="fraction"),
        pytest.param(1e22, "1.0e+22", id="exponent without a point"),
        pytest.param(1.5e-7, "1.5e-07", id="exponent with a point"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
    ],
)
def test_numbers(number: float, expected: str) -> None:
    assert written({"k": number}) == f"k: {expected}\n"
    assert yaml.safe_load(expected) == number


class Policy(StrEnum):
    NEVER = "Never"
    NO = "No"


def test_subclasses_and_other_mappings_are_written_as_what_they_stand_for() -> None:
    value = {"a": Policy.NEVER, "b": [Policy.NO], "c": MappingProxyType({"d": (1, 2)}), Policy.NEVER: ()}
    assert written(value) == 'a: Never\nb:\n- "No"\nc:\n  d:\n  - 1\n  - 2\nNever: []\n'


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, [b"x"], {1: 2}, {None: 1}, {"a": {("b",): 1}}])
def test_what_is_not_plain_is_a_mistake_of_the_caller(value: object) -> None:
    with pytest.raises(TypeError):
        written(value)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_that_json_does_not_know(value: float) -> None:
    with pytest.raises(ValueError, match="neither JSON nor Kubernetes"):
        written({"a": value})


@pytest.mark.parametrize("value", [1, {"a": 1}, [1, 2], [{"a": 1}], "x", {}, [[], "a\nb"]], ids=repr)
@pytest.mark.parametrize("key", ["k" * 161, "k" * 1100, "\x01" * 200, "k\n" * 600], ids=["161", "1100", "x", "lines"])
def test_long_keys(key: str, value: object) -> None:
    for document in ({key: value, "b": 1}, [{key: value, "b": {key: value}}]):
        assert yaml.safe_load(written(document)) == document
        assert parse(written(document), "f")[0][0][0] == document


def test_more_different_text_than_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MAX_KEPT", 200)
    documents = [{f"key-{index}": f"value {index}", "text": f"a\n{index}\n"} for index in range(450)]
    documents += documents[:5]
    text = written(*documents)
    assert [value for value, _ in parse(text, "f")[0]] == documents


TEXTS = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.text("ab \t\n:#-?'\"\\|>&*!%@`{}[],~=<0123.ex_oyn", max_size=10)
    | st.from_regex(r"[-+.0-9oxbeEf_:yYnNtT]{1,8}", fullmatch=True)
    | st.sampled_from(["yes", "No", "null", "~", "", "=", "<<", "-", "--- a", "... ", "1_0", ".5", "1e3", "0b-1"])
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=3))
def test_what_is_written_reads_back_the_same(documents: list[Any]) -> None:
    text = written(*documents)
    assert text == written(*documents)
    assert list(yaml.safe_load_all(text)) == documents
    expected = [_as_json(document) for document in documents if document is not None]
    for loader in (yaml.CLoader, yaml.Loader):
        found, problems = parse(text, "f", loader)
        assert ([value for value, _ in found], problems) == (expected, [])


def _as_json(value: Any) -> Any:
    if isinstance(value, float):
        return as_json_number(value)
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return {key: _as_json(item) for key, item in value.items()} if isinstance(value, dict) else value
