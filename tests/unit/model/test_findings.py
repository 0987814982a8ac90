from __future__ import annotations

import pickle

import pytest

from pumice.model.findings import ABSENT, METADATA, ROOT, SPEC, Finding, Path, Severity, warning, without_consequences


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(ROOT, "", id="the document"),
        pytest.param(SPEC, "spec", id="a field"),
        pytest.param(SPEC / "tasks" / 1 / "replicas", "spec.tasks[1].replicas", id="an index"),
        pytest.param(
            METADATA / "labels" / "example.com/app", "metadata.labels[example.com/app]", id="dots and slashes"
        ),
        pytest.param(SPEC / "plugins" / "", "spec.plugins[]", id="an empty key"),
        pytest.param(SPEC / "a_b-$1", "spec.a_b-$1", id="a plain key"),
        pytest.param(ROOT / "two\nlines", "[two\nlines]", id="a line break"),
        pytest.param(ROOT / "a\n", "[a\n]", id="a line break at the end"),
        pytest.param(ROOT / 0 / "a", "[0].a", id="an index first"),
    ],
)
def test_a_path_as_text(path: Path, text: str) -> None:
    assert str(path) == text


def test_a_path_is_a_value() -> None:
    assert Path(("spec", "a")) == SPEC / "a"
    assert {SPEC / "a": 1}[Path(("spec", "a"))] == 1
    assert SPEC == ROOT / "spec"


def test_an_error_and_a_warning() -> None:
    error = Finding(SPEC, "is missing")
    assert (error.is_error, error.severity, error.value, error.hint) == (True, Severity.ERROR, ABSENT, "")
    doubt = warning(SPEC, "is odd", 5, "do this")
    assert doubt == Finding(SPEC, "is odd", 5, "do this", Severity.WARNING)
    assert not doubt.is_error


def test_severities_are_the_words_of_the_json_output() -> None:
    assert [str(severity) for severity in Severity] == ["error", "warning"]


def test_nothing_found_reads_as_such() -> None:
    assert repr(ABSENT) == "ABSENT"


@pytest.mark.parametrize(
    ("path", "within"),
    [
        pytest.param(SPEC / "tasks", True, id="the place itself"),
        pytest.param(SPEC / "tasks" / 0 / "name", True, id="below it"),
        pytest.param(SPEC, False, id="above it"),
        pytest.param(SPEC / "task", False, id="beside it"),
    ],
)
def test_a_path_is_within_paths(path: Path, within: bool) -> None:
    assert path.is_within({SPEC / "tasks"}) is within
    assert not path.is_within(set())
    assert path.is_within({ROOT})


def test_what_has_a_wrong_name_is_not_missing_as_well() -> None:
    typo = Finding(SPEC / "task", "unknown field", correct_path=SPEC / "tasks")
    missing = Finding(SPEC / "tasks", "a job needs at least one task")
    below = Finding(SPEC / "tasks" / 0 / "name", "is missing")
    other = Finding(METADATA / "name", "is missing")
    assert without_consequences([missing, typo, below, other]) == [typo, other]
    assert without_consequences([missing, other]) == [missing, other]


def test_two_findings_that_say_the_same_are_equal() -> None:
    one, other = Finding(SPEC, "unknown field", correct_path=SPEC / "a"), Finding(SPEC, "unknown field")
    assert one == other
    assert (one != other) is False
    assert one != Finding(SPEC, "missing")
    assert len({one, other}) == 1


def test_no_value_is_the_same_object_after_a_copy() -> None:
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
