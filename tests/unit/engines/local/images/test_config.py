from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.images.sources import ImageConfig, read_config


def test_all_fields() -> None:
    document = {
        "architecture": "amd64",
        "config": {
            "Entrypoint": ["/entry"],
            "Cmd": ["a", "b"],
            "Env": ["PATH=/bin", "EMPTY=", "EQUALS=a=b", "nothing", "=x"],
            "WorkingDir": "/work",
            "User": "1000:1000",
            "StopSignal": "SIGINT",
        },
    }
    config = read_config(document)
    env = {"PATH": "/bin", "EMPTY": "", "EQUALS": "a=b"}
    assert config == ImageConfig(("/entry",), ("a", "b"), env, "/work", "1000:1000", "SIGINT", "amd64")


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="empty"),
        pytest.param({"config": None}, id="null"),
        pytest.param({"config": []}, id="empty list"),
        pytest.param({"config": ["Cmd"]}, id="list"),
        pytest.param({"config": {"Env": None, "Cmd": None, "Entrypoint": 1, "User": 2}}, id="other types"),
        pytest.param({"config": {"Entrypoint": ""}}, id="empty shell form"),
    ],
)
def test_missing_and_ill_formed_fields_are_empty(document: dict[str, Any]) -> None:
    assert read_config(document) == ImageConfig()


def test_shell_form() -> None:
    assert read_config({"config": {"Cmd": "echo hi"}}).cmd == ("/bin/sh", "-c", "echo hi")
