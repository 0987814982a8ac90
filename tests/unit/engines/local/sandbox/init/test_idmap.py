from __future__ import annotations

import pytest

from pumice.engines.local.sandbox.init.idmap import can_map, has_many, identity


@pytest.mark.parametrize(
    ("id_map", "expected"),
    [
        pytest.param("         0          0 4294967295\n", "0 0 4294967295\n", id="machine"),
        pytest.param("0 1000 1\n1 100000 65536\n", "0 0 1\n1 1 65536\n", id="container"),
    ],
)
def test_identity_map(id_map: str, expected: str) -> None:
    assert identity(id_map) == expected


@pytest.mark.parametrize(
    ("id_map", "expected"),
    [
        pytest.param("0 0 4294967295\n", True, id="machine"),
        pytest.param("0 1000 1\n1 100000 65536\n", True, id="container"),
        pytest.param("0 1000 1\n", False, id="one user"),
    ],
)
def test_a_namespace_with_several_users(id_map: str, expected: bool) -> None:
    assert has_many(id_map) is expected


@pytest.mark.parametrize(
    ("id_map", "expected"),
    [
        pytest.param("         0          0 4294967295\n", True, id="the machine"),
        pytest.param("0 100000 65536\n", False, id="a container with users of its own"),
        pytest.param("0 1000 1\n1 100000 65536\n", False, id="rootless"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_ids_can_be_mapped_where_all_exist(id_map: str, expected: bool) -> None:
    assert can_map(id_map) is expected
