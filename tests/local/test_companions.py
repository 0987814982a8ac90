from __future__ import annotations

from pathlib import Path

from pumice.engines.local.companions import read_companions


def test_all_kinds_are_read() -> None:
    companions, problems = read_companions(
        [
            {
                "kind": "ConfigMap",
                "metadata": {"name": "c"},
                "data": {"a": "1", "e": "\udcff"},
                "binaryData": {"b": "/w=="},
            },
            {
                "kind": "Secret",
                "metadata": {"name": "s"},
                "data": {"a": "MQ==", "b": "Mg\n=="},
                "stringData": {"a": "x"},
            },
            {"kind": "Service", "metadata": {"name": "v"}},
            {"kind": "ConfigMap", "metadata": {"name": "empty"}, "data": None},
        ],
        {"claim": Path("/claims/claim")},
    )
    assert problems == []
    assert companions.config_maps == {"c": {"a": b"1", "e": b"\xff"}, "empty": {}}
    assert companions.config_map_files("c") == {"a": b"1", "e": b"\xff", "b": b"\xff"}
    assert companions.config_map_files("empty") == {}
    assert companions.config_map_files("x") is None
    assert companions.secrets == {"s": {"a": b"x", "b": b"2"}}
    assert companions.claims == {"claim": Path("/claims/claim")}


def test_what_cannot_be_read_is_told() -> None:
    companions, problems = read_companions(
        [
            {"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "not base64!", "b": "abc"}},
            {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"../up": "x", "n": 1}, "binaryData": {"b": "?"}},
        ],
        {},
    )
    assert companions.secrets == {"s": {}}
    assert companions.config_map_files("c") == {}
    assert all(problem.fatal for problem in problems)
    assert [str(problem) for problem in problems] == [
        "Secret s: data.a: is not base64\n  hint: encode it with base64, or give it as it is under stringData",
        "Secret s: data.b: is not base64\n  hint: encode it with base64, or give it as it is under stringData",
        "ConfigMap c: data.../up: must be letters, digits, '-', '_' or '.'",
        "ConfigMap c: data.n: must be a text\n  hint: put quotes around it",
        "ConfigMap c: binaryData.b: is not base64",
    ]
