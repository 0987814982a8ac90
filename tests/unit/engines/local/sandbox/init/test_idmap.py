from __future__ import annotations

import pytest

from pumice.engines.local.sandbox.init.idmap import has_many, identity


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        pytest.param("         0          0 4294967295\n", "0 0 4294967295\n", id="the machine's own"),
        pytest.param("0 1000 1\n1 100000 65536\n", "0 0 1\n1 1 65536\n", id="inside of a container"),
    ],
)
def test_every_id_keeps_its_number(here: str, expected: str) -> None:
    assert identity(here) == expected


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        pytest.param("0 0 4294967295\n", True, id="the machine's own"),
        pytest.param("0 1000 1\n1 100000 65536\n", True, id="inside of a container"),
        pytest.param("0 1000 1\n", False, id="a single user"),
    ],
)
def test_whether_there_are_others(here: str, expected: bool) -> None:
    assert has_many(here) is expected
