from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.store.code.patches import apply_patch, make_patch
from tests.unit.store.code.repositories import git, make_repository

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "- x", "+ y", "\\ z", "@@ -1 +1 @@"]), max_size=30).map("\n".join)
MANY = "".join(f"{number % 7}\n" for number in range(3000))


@settings(deadline=None)
@given(LINES, LINES)
def test_a_patch_makes_the_one_of_the_other(before: str, after: str) -> None:
    patch = make_patch(before.encode(), after.encode())
    assert patch is not None
    assert apply_patch(before.encode(), patch) == after.encode()


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\nc\n", "a\nB\nc\n", id="one line"),
        pytest.param("a\nb", "a\nb\n", id="an end of line"),
        pytest.param("a\nb\n", "a\nb", id="no end of line"),
        pytest.param("x\n" * 50 + "y\n" + "x\n" * 50, "x\n" * 40 + "z\n" + "x\n" * 61, id="equal lines"),
        pytest.param(MANY, MANY.replace("3\n", "4\n"), id="too many to compare"),
        pytest.param("a\n", "", id="everything removed"),
    ],
)
def test_git_applies_it(tmp_path: Path, before: str, after: str) -> None:
    top = make_repository(tmp_path, {"f.py": before})
    patch = f"--- a/f.py\n+++ b/f.py\n{make_patch(before.encode(), after.encode())}"
    git(top, "apply", "--unidiff-zero", data=patch.encode())
    assert (top / "f.py").read_text() == after


@pytest.mark.parametrize(("before", "after"), [(b"\xff", b"a"), (b"a", b"\0")])
def test_what_is_no_text_has_no_patch(before: bytes, after: bytes) -> None:
    assert make_patch(before, after) is None


@pytest.mark.parametrize("patch", ["@@ -9,1 +9,1 @@\n-a\n", "@@ -1,1 +1,1 @@\n-b\n+c\n", "rm -rf /\n", "-a\n-a\n"])
def test_a_patch_of_another_text_is_an_error(patch: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        apply_patch(b"a\n", patch)
