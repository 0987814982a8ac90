from __future__ import annotations

import pytest

from pumice.model.suggestions import did_you_mean, known_names, nearest

POLICIES = ("Always", "OnFailure", "Never")
FIELDS = ("image", "imagePullPolicy", "imagePullSecrets", "terminationGracePeriodSeconds", "env", "envFrom", "ports")


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        pytest.param("always", POLICIES, "Always", id="another case"),
        pytest.param("ENVFROM", FIELDS, "envFrom", id="case goes before a beginning"),
        pytest.param("Alway", POLICIES, "Always", id="a letter too few"),
        pytest.param("Allways", POLICIES, "Always", id="a letter too many"),
        pytest.param("Nevar", POLICIES, "Never", id="a wrong letter"),
        pytest.param("OnFaliure", POLICIES, "OnFailure", id="swapped neighbours are one edit"),
        pytest.param("prots", FIELDS, "ports", id="swapped neighbours in a short word"),
        pytest.param("imagePulPolici", FIELDS, "imagePullPolicy", id="two edits in a long word"),
        pytest.param("pxrtz", FIELDS, None, id="two edits are too many in a short word"),
        pytest.param("imgPullPlcy", FIELDS, None, id="many edits"),
        pytest.param("terminationGrace", FIELDS, "terminationGracePeriodSeconds", id="a word broken off"),
        pytest.param("imagePull", FIELDS, None, id="a beginning that fits two"),
        pytest.param("ter", FIELDS, None, id="a beginning too short to tell"),
        pytest.param("en", FIELDS, None, id="two letters are too few to guess from"),
        pytest.param("cat", ("bat", "hat"), "bat", id="the first of equals"),
        pytest.param("abcdefg", ("abcdxyg", "abcdefh"), "abcdefh", id="the nearest, not the first"),
        pytest.param("abcabc", ("cbacba",), None, id="the same letters in another order"),
        pytest.param("Sometimes", POLICIES, None, id="nothing close"),
        pytest.param("", POLICIES, None, id="an empty word"),
        pytest.param("Always", (), None, id="no candidates"),
        pytest.param("Alway", ("Always", *map(str, range(100))), None, id="too many candidates"),
        pytest.param("a" * 101, ("a" * 100,), None, id="a word that is too long"),
    ],
)
def test_nearest(word: str, candidates: tuple[str, ...], expected: str | None) -> None:
    assert nearest(word, candidates) == expected


def test_did_you_mean_is_a_hint() -> None:
    assert did_you_mean("Nevr", POLICIES) == "did you mean Never?"
    assert did_you_mean("Sometimes", POLICIES) == ""


def test_the_names_that_there_are() -> None:
    assert known_names("wrker", ("master", "worker")) == "did you mean worker? it has master, worker"
    many = tuple(f"task{number:02d}" for number in range(99))
    assert known_names("x", many).startswith("it has task00, task01, ")
    assert known_names("x", many).endswith(", ...")
