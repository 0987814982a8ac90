from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pumice.model.findings import ROOT, Path
from pumice.model.problem import Position, Problem
from pumice.yaml.documents import Document, read
from pumice.yaml.reader import parse

JOB = """\
# a comment
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  tasks:
  - name: master
    replicas: 1
  - replicas: -2
    template: {spec: {containers: [{name: a}, {name: b}]}}
---
---
# another
kind: ConfigMap
"""


def read_text(tmp_path: FilePath, content: str | bytes) -> tuple[list[Document], list[Problem]]:
    file = tmp_path / "job.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    documents, problems = read(str(file))
    return documents, [replace(each, where=replace(each.where, file="job.yaml")) for each in problems]


def values(documents: list[Document]) -> list[object]:
    return [document.value for document in documents]


def test_documents_come_with_file_and_line(tmp_path: FilePath) -> None:
    documents, problems = read_text(tmp_path, JOB)
    assert problems == []
    assert [(document.file, document.line) for document in documents] == [
        (str(tmp_path / "job.yaml"), 2),
        (str(tmp_path / "job.yaml"), 13),
    ]
    assert values(documents) == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "spec": {
                "tasks": [
                    {"name": "master", "replicas": 1},
                    {"replicas": -2, "template": {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}},
                ]
            },
        },
        {"kind": "ConfigMap"},
    ]


def test_keys_keep_their_order(tmp_path: FilePath) -> None:
    [document], _ = read_text(tmp_path, "z: 1\na: 2\nm: {q: 1, b: 2}\n")
    assert list(document.value) == ["z", "a", "m"]  # type: ignore[call-overload]  # a Document holds any value


@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(
    ("path", "position"),
    [
        pytest.param(ROOT, (2, 1), id="document"),
        pytest.param(Path(("kind",)), (3, 1), id="key"),
        pytest.param(Path(("spec", "tasks")), (5, 3), id="key of a list"),
        pytest.param(Path(("spec", "tasks", 0)), (6, 5), id="list item"),
        pytest.param(Path(("spec", "tasks", 1, "replicas")), (8, 5), id="key in an item"),
        pytest.param(Path(("spec", "tasks", 1, "template", "spec", "containers", 1, "name")), (9, 48), id="flow style"),
        pytest.param(Path(("spec", "tasks", 1, "minAvailable")), (8, 5), id="missing key: its mapping"),
        pytest.param(Path(("spec", "tasks", 7, "name")), (5, 3), id="missing item: its list"),
        pytest.param(Path(("spec", "tasks", -1)), (5, 3), id="no counting from the end"),
        pytest.param(Path(("spec", "tasks", "name")), (5, 3), id="key of a list is none"),
        pytest.param(Path(("spec", 0)), (4, 1), id="index of a mapping is none"),
        pytest.param(Path(("kind", "x", "y")), (3, 1), id="inside a scalar"),
    ],
)
def test_position(tmp_path: FilePath, path: Path, position: tuple[int, int], line_break: str) -> None:
    documents, _ = read_text(tmp_path, JOB.replace("\n", line_break))
    assert documents[0].position(path) == position


ALIASES = """\
base: &base
  image: x
  env: [{name: a}]
one:
  <<: *base
  image: z
two: *base
three: [*base, *base]
four:
  name: first
  <<: *base
"""


def test_aliases_are_shared_and_merges_are_overridden(tmp_path: FilePath) -> None:
    [document], problems = read_text(tmp_path, ALIASES)
    value: Any = document.value
    assert problems == []
    assert value["one"] == {"image": "z", "env": [{"name": "a"}]}
    assert value["four"] == {"name": "first", "image": "x", "env": [{"name": "a"}]}
    assert value["base"] is value["two"] is value["three"][0] is value["three"][1]
    assert value["one"]["env"] is value["base"]["env"]


def test_a_merge_behind_a_key_that_it_repeats_is_ambiguous(tmp_path: FilePath) -> None:
    """The specification gives 1, kubectl 2."""
    _, [problem] = read_text(tmp_path, "base: &base {a: 2}\njob:\n  a: 1\n  <<: *base\n")
    assert (problem.where.line, problem.where.column) == (4, 3)
    assert problem.message == "<< also has a, and readers differ on which one counts"
    assert problem.hint == "put << first"


@pytest.mark.parametrize(
    ("path", "position"),
    [
        pytest.param(Path(("one", "image")), (6, 3), id="own key"),
        pytest.param(Path(("one", "env", 0, "name")), (3, 10), id="merged key: where it is written"),
        pytest.param(Path(("two",)), (7, 1), id="alias: its key"),
        pytest.param(Path(("two", "image")), (2, 3), id="inside an alias: where it is written"),
        pytest.param(Path(("three", 1)), (8, 16), id="alias in a list"),
        pytest.param(Path(("four", "name")), (10, 3), id="own key before the merge"),
    ],
)
def test_positions_of_aliases_and_merges(tmp_path: FilePath, path: Path, position: tuple[int, int]) -> None:
    [document], _ = read_text(tmp_path, ALIASES)
    assert document.position(path) == position


def test_anchors_end_with_their_document(tmp_path: FilePath) -> None:
    documents, [problem] = read_text(tmp_path, "a: &x 1\n---\na: *x\n")
    assert values(documents) == [{"a": 1}, {"a": None}]
    assert str(problem) == "job.yaml:3:4: alias *x: the document has no anchor of this name before it"


def test_an_anchor_may_be_given_again_inside_its_value(tmp_path: FilePath) -> None:
    [document], problems = read_text(tmp_path, "a: &x [&x b, *x]\nc: *x\n")
    assert (document.value, problems) == ({"a": ["b", "b"], "c": "b"}, [])


def test_all_problems_of_a_file_come_at_once(tmp_path: FilePath) -> None:
    documents, problems = read_text(tmp_path, "a: 1\na: !x 2\n1: .inf\nb: *gone\n")
    assert values(documents) == [{"a": "2", "1": ".inf", "b": None}]
    assert [str(problem.where).rpartition("yaml:")[2] for problem in problems] == ["2:1", "2:4", "3:1", "3:4", "4:4"]


def test_documents_before_a_syntax_error_are_kept(tmp_path: FilePath) -> None:
    documents, problems = read_text(tmp_path, "a: 1\n---\nb: [\n")
    assert values(documents) == [{"a": 1}]
    assert [str(problem.where) for problem in problems] == ["job.yaml:4:1"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_that_announce_themselves(tmp_path: FilePath, encoding: str) -> None:
    [document], problems = read_text(tmp_path, "näme: 中文 😀\n".encode(encoding))
    assert (document.value, problems) == ({"näme": "中文 😀"}, [])
    assert document.position(Path(("näme",))) == (1, 1)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a: 1\nb: [\n")))
    documents, [problem] = read("-")
    assert documents == []
    assert str(problem.where) == "-:3:1"


def test_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert read("-") == ([], [Problem("standard input is closed", where=Position("-"))])


def test_a_pipe_as_process_substitution_gives_one(tmp_path: FilePath) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a: 1\n",))
    writer.start()
    [document], problems = read(str(pipe))
    writer.join()
    assert (document.value, problems) == ({"a": 1}, [])


@given(st.text())
def test_any_text_gives_documents_or_problems_with_a_position(text: str) -> None:
    for loader in (yaml.CLoader, yaml.Loader):
        clean = "".join(character for character in text if character.isprintable() or character in "\t\n")
        _, problems = parse(clean, "f", loader)
        assert all(problem.where.line >= 1 and problem.where.column >= 1 and problem.message for problem in problems)


@given(st.text("ab01 \n\t:-?#&*!|>'\"%@`{}[],<~\\", max_size=40))
def test_any_punctuation_gives_documents_or_problems_with_a_position(text: str) -> None:
    for loader in (yaml.CLoader, yaml.Loader):
        _, problems = parse(text, "f", loader)
        assert all(problem.where.line >= 1 and problem.where.column >= 1 and problem.message for problem in problems)


@given(st.binary())
def test_any_bytes_give_documents_or_problems(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(content)
    documents, problems = read(str(file))
    assert documents or problems
    assert all(problem.where.line >= 1 and problem.where.column >= 1 for problem in problems)


def test_a_document_has_its_own_text_with_its_comments(tmp_path: FilePath) -> None:
    parts = ["# first\na: 1\n", "# second\n\nb:\n- 2\n", "c: 3\n"]
    path = tmp_path / "job.yaml"
    path.write_text("---\n".join(parts))
    documents, problems = read(str(path))
    assert problems == []
    assert [(each.text, each.first, each.line) for each in documents] == [
        (parts[0], 1, 2),
        (parts[1], 4, 6),
        (parts[2], 9, 9),
    ]
