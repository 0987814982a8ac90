from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.container_spec.config_sources import known_keys, read_config_sources


@pytest.mark.parametrize(
    ("entries", "hint"),
    [
        pytest.param(["user", "host"], "did you mean user? it has host, user; mend the key, or set", id="misspelt"),
        pytest.param(["host"], "it has host; mend the key, or set optional: true", id="another"),
        pytest.param([], "it is empty; mend the key, or set optional: true", id="none"),
    ],
)
def test_a_missing_key_is_told_which_there_are(entries: list[str], hint: str) -> None:
    assert known_keys("usr", entries).startswith(hint)


def test_all_kinds_are_read() -> None:
    config_sources, problems = read_config_sources(
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
    assert config_sources.config_maps == {"c": {"a": b"1", "e": b"\xff"}, "empty": {}}
    assert config_sources.config_map_files("c") == {"a": b"1", "e": b"\xff", "b": b"\xff"}
    assert config_sources.config_map_files("empty") == {}
    assert config_sources.config_map_files("x") is None
    assert config_sources.secrets == {"s": {"a": b"x", "b": b"2"}}
    assert config_sources.claims == {"claim": Path("/claims/claim")}


def test_what_cannot_be_read_is_told() -> None:
    config_sources, problems = read_config_sources(
        [
            {"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "not base64!", "b": "abc"}},
            {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"../up": "x", "n": 1}, "binaryData": {"b": "?"}},
        ],
        {},
    )
    assert config_sources.secrets == {"s": {}}
    assert config_sources.config_map_files("c") == {}
    assert all(problem.fatal for problem in problems)
    assert [problem.text for problem in problems] == [
        "Secret s: data.a: is not base64\n  hint: encode it with base64, or give it as it is under stringData",
        "Secret s: data.b: is not base64\n  hint: encode it with base64, or give it as it is under stringData",
        "ConfigMap c: data.../up: must be letters, digits, '-', '_' or '.'",
        "ConfigMap c: data.n: must be a text\n  hint: put quotes around it",
        "ConfigMap c: binaryData.b: is not base64",
    ]
