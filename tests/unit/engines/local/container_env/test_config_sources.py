from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.container_env import missing_key, missing_source, read_config_sources


@pytest.mark.parametrize(
    ("entries", "hint"),
    [
        pytest.param(["user", "host"], "did you mean user? it has host, user; correct the key, or set", id="misspelt"),
        pytest.param(["host"], "it has host; correct the key, or set optional: true", id="other keys"),
        pytest.param([], "it is empty; correct the key, or set optional: true", id="empty"),
    ],
)
def test_a_missing_key(entries: list[str], hint: str) -> None:
    problem = missing_key("env V", "Secret s", "usr", entries)
    assert problem.message == "env V: Secret s has no key usr"
    assert problem.hint.startswith(hint)


def test_a_missing_source() -> None:
    problem = missing_source("envFrom", "ConfigMap", "c")
    assert problem.message == "envFrom: there is no ConfigMap c"
    assert problem.hint == 'add the ConfigMap to the job\'s file, pass it with with_="FILE", or set optional: true'


def test_all_fields_of_config_maps_and_secrets_are_decoded() -> None:
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


def test_entries_that_cannot_be_decoded_are_problems() -> None:
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
        "Secret s: data.a: is not base64\n  hint: encode it with base64, or put it under stringData as it is",
        "Secret s: data.b: is not base64\n  hint: encode it with base64, or put it under stringData as it is",
        "ConfigMap c: data.../up: must be letters, digits, '-', '_' or '.'",
        "ConfigMap c: data.n: must be a string\n  hint: put quotes around it",
        "ConfigMap c: binaryData.b: is not base64",
    ]
