"""What is ignored, compared with what git says."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from pumice.store.code.ignore_rules import is_ignored, read_rules
from tests.unit.store.code.repositories import git, make_repository

PATHS = (
    "a.log", "sub/a.log", "keep.log", "sub/keep.log", "build/x", "sub/build/x", "doc/a.txt", "doc/sub/a.txt", "a b",
    "#x", "!x", "foo/bar/baz", "x/foo/bar/baz", "a/x/b", "a/x/y/b", "a/b", "abc", "adc", "a]c", "a-c", "star*", "q?",
    "data", "back\\slash", "é.txt", ".hidden", "aXbXc", "trailing ",
)  # fmt: skip


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("*.log\n!keep.log", id="negation"),
        pytest.param("build/", id="directory"),
        pytest.param("/build", id="anchored"),
        pytest.param("doc/*.txt", id="a star is of one level"),
        pytest.param("**/bar", id="any level first"),
        pytest.param("foo/**", id="all below"),
        pytest.param("a/**/b", id="any level between"),
        pytest.param("a[b-d]c", id="range"),
        pytest.param("a[!b]c", id="negated range"),
        pytest.param("a[]-]c", id="bracket in a range"),
        pytest.param("a[bc", id="unclosed range"),
        pytest.param("\\#x\n\\!x", id="escaped"),
        pytest.param("# x\n\nstar\\*\nq\\?", id="comment and escaped stars"),
        pytest.param("a b   \ndata", id="trailing spaces"),
        pytest.param("trailing\\ ", id="escaped trailing space"),
        pytest.param("a?c", id="question mark"),
        pytest.param("*", id="everything"),
        pytest.param("*\n!*.txt", id="all but"),
        pytest.param("a*b*c", id="two stars"),
        pytest.param("***/b", id="more stars"),
        pytest.param("é*", id="not ASCII"),
        pytest.param("\ufeff*.log", id="byte order mark"),
        pytest.param("foo/\nfoo/bar", id="slash in the middle"),
        pytest.param("back\\\\slash", id="backslash"),
    ],
)
def test_ignores_what_git_ignores(tmp_path: Path, rules: str) -> None:
    make_repository(tmp_path, {})
    for path in PATHS:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / ".gitignore").write_text(rules, encoding="utf-8")
    listed = git(tmp_path, "ls-files", "-z", "-o", "--exclude-standard").split("\0")
    expected = [path for path in PATHS if path not in listed]
    parsed = read_rules(rules.encode())

    def ignored(path: str) -> bool:
        parts = path.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(is_ignored(parsed, each, is_directory=True) for each in above) or is_ignored(
            parsed, path, is_directory=False
        )

    assert [path for path in PATHS if ignored(path)] == expected


def test_a_hostile_pattern_takes_bounded_time() -> None:
    rules = read_rules(b"*a" * 400 + b"*b\n" + b"**/a/" * 150 + b"b\n" + b"[" * 900 + b"\n(((((\n" + b"x" * 5000)
    assert not is_ignored(rules, "a" * 255, is_directory=False)
    assert not is_ignored(rules, "/".join("a" * 100), is_directory=False)


def test_rules_of_a_directory_are_for_what_is_below_it() -> None:
    rules = read_rules(b"/x\n", "sub")
    assert is_ignored(rules, "sub/x", is_directory=False)
    assert not is_ignored(rules, "x", is_directory=False)
    assert not is_ignored(rules, "sub/y/x", is_directory=False)


def test_spaces_take_no_time_and_no_pattern_is_a_warning() -> None:
    rules = read_rules((b" " * 1000 + b"x\n") * 200 + b"a \nb\\ \nc\\  \n")
    assert [path for path in ("a", "a ", "b ", "c ", "c") if is_ignored(rules, path, is_directory=False)] == [
        "a",
        "b ",
        "c ",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pattern in (b"[a||b]", b"[x&&|]", b"[x~~|]", b"[x[[|]", b"[a--|]"):
            assert is_ignored(read_rules(pattern), "|", is_directory=False), pattern
