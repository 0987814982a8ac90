from __future__ import annotations

from collections.abc import Mapping

import pytest

from pumice.engines.local.registry.registry_client import challenges

BEARER = 'Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push"'


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(
            [BEARER],
            {
                "bearer": {
                    "realm": "https://auth.example/token",
                    "service": "registry.example",
                    "scope": "repository:a/b:pull,push",
                }
            },
            id="bearer",
        ),
        pytest.param(["Basic realm=x"], {"basic": {"realm": "x"}}, id="without quotes"),
        pytest.param(['BASIC Realm = "a \\"b\\""'], {"basic": {"realm": 'a "b"'}}, id="escapes"),
        pytest.param(
            ['Basic realm="x", Bearer realm="y"'], {"basic": {"realm": "x"}, "bearer": {"realm": "y"}}, id="two in one"
        ),
        pytest.param(["Basic realm=x", "Negotiate"], {"basic": {"realm": "x"}, "negotiate": {}}, id="two headers"),
        pytest.param(['Bearer realm="y",realm="z"'], {"bearer": {"realm": "y"}}, id="twice"),
        pytest.param([""], {}, id="empty"),
        pytest.param(['"'], {}, id="nonsense"),
        pytest.param(['Bearer realm="unfinished'], {"bearer": {}}, id="unfinished"),
        pytest.param(["Basic " + "x" * 9000], {}, id="too long"),
        pytest.param([" " * 8000], {}, id="spaces"),
    ],
)
def test_challenges(headers: list[str], expected: Mapping[str, Mapping[str, str]]) -> None:
    assert challenges(headers) == expected
