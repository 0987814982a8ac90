from __future__ import annotations

from typing import Any

import pytest

from pumice.engines.local.container_env import (
    ConfigSources,
    complete_env,
    container_env,
    expand,
    expand_all,
    unknown_references,
)
from pumice.engines.local.sandbox.init.exec_command import DEFAULT_PATH
from tests.builders import literal
from tests.unit.engines.local.pod_values import FACTS, a_pod

SOURCES = ConfigSources(
    config_maps={"settings": {"lr": b"0.1", "bad name\n": b"x", "b=c": b"y"}},
    binary={"settings": {"blob": b"\xff"}},
    secrets={"token": {"key": b"s3cret", "raw": b"\xff\xfe", "zero": b"a\0b"}},
)


def env(container: dict[str, Any], **spec: Any) -> tuple[dict[str, str], list[str]]:
    found, problems = container_env(container, a_pod(container, **spec), FACTS, SOURCES)
    return found, [("! " if problem.fatal else "") + problem.message for problem in problems]


def sourced(**source: Any) -> dict[str, Any]:
    return {"name": "c", "env": [{"name": "V", "valueFrom": source}]}


def test_a_value_may_refer_to_earlier_variables() -> None:
    variables = [*literal(A="1", B="$(A)$(C)", C="$(B)"), {"name": "D"}, *literal(A="2", E="$(A)")]
    found, problems = env({"env": variables, "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}]})
    assert found == {"P_lr": "0.1", "A": "2", "B": "1$(C)", "C": "1$(C)", "D": "", "E": "2"}
    assert next(iter(found)) == "P_lr"
    assert problems == [
        "envFrom: ConfigMap settings: P_b=c, P_bad name\n is not a valid name of a variable and is left out"
    ]


def test_env_wins_over_env_from_and_may_refer_to_it() -> None:
    container = {"envFrom": [{"secretRef": {"name": "token"}}], "env": literal(raw="$(key)!", zero="")}
    assert env(container) == ({"key": "s3cret", "raw": "s3cret!", "zero": ""}, [])


@pytest.mark.parametrize(
    ("source", "expected", "problem"),
    [
        pytest.param({"configMapRef": {"name": "x", "optional": True}}, {}, [], id="optional"),
        pytest.param({"configMapRef": {"name": "x"}}, {}, ["! envFrom: there is no ConfigMap x"], id="config map"),
        pytest.param({"secretRef": {"name": "x"}}, {}, ["! envFrom: there is no Secret x"], id="secret"),
        pytest.param({"prefix": "p"}, {}, [], id="nothing"),
    ],
)
def test_env_from_a_missing_source(source: dict[str, Any], expected: dict[str, str], problem: list[str]) -> None:
    assert env({"envFrom": [source]}) == (expected, problem)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        pytest.param({"configMapKeyRef": {"name": "settings", "key": "lr"}}, "0.1", id="config map"),
        pytest.param({"secretKeyRef": {"name": "token", "key": "key"}}, "s3cret", id="secret"),
        pytest.param({"secretKeyRef": {"name": "token", "key": "raw"}}, "\udcff\udcfe", id="bytes"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.name"}}, "train-worker-0", id="name"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.namespace"}}, "lab", id="namespace"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.uid"}}, "uid-1", id="uid"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['a.example/x']"}}, "1", id="label"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, "", id="no label"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.annotations['x']"}}, "", id="no annotation"),
        pytest.param({"fieldRef": {"fieldPath": "spec.nodeName"}}, "laptop", id="node"),
        pytest.param({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "default", id="account"),
        pytest.param({"fieldRef": {"fieldPath": "status.hostIP"}}, "192.0.2.1", id="host"),
        pytest.param({"fieldRef": {"fieldPath": "status.hostIPs"}}, "192.0.2.1", id="hosts"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIP"}}, "10.77.0.10", id="ip"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIPs"}}, "10.77.0.10", id="ips"),
        pytest.param({"resourceFieldRef": {"resource": "limits.cpu"}}, "4", id="limit of the machine"),
        pytest.param({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "3500", id="divisor"),
        pytest.param({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Gi"}}, "8", id="memory"),
        pytest.param({"resourceFieldRef": {"resource": "requests.cpu"}}, "0", id="no request"),
        pytest.param({"resourceFieldRef": {"resource": "limits.hugepages-2Mi"}}, "0", id="huge pages"),
    ],
)
def test_sources(source: dict[str, Any], value: str) -> None:
    assert env(sourced(**source)) == ({"V": value}, [])


@pytest.mark.parametrize(
    ("source", "problems"),
    [
        pytest.param({"configMapKeyRef": {"name": "x", "key": "k"}}, ["! env V: there is no ConfigMap x"], id="map"),
        pytest.param({"secretKeyRef": {"name": "x", "key": "k"}}, ["! env V: there is no Secret x"], id="secret"),
        pytest.param(
            {"configMapKeyRef": {"name": "settings", "key": "k"}},
            ["! env V: ConfigMap settings has no key k"],
            id="key",
        ),
        pytest.param(
            {"configMapKeyRef": {"name": "settings", "key": "blob"}},
            ["! env V: ConfigMap settings has no key blob"],
            id="binary data cannot be a variable",
        ),
        pytest.param({"secretKeyRef": {"name": "token", "key": "k", "optional": True}}, [], id="optional key"),
        pytest.param({"secretKeyRef": {"name": "x", "key": "k", "optional": True}}, [], id="optional secret"),
        pytest.param(
            {"fieldRef": {"fieldPath": "spec.x"}}, ["! env V: fieldRef: spec.x: a pod has no such field"], id="field"
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.gpu"}},
            ["! env V: resourceFieldRef: limits.gpu: a pod has no such field"],
            id="resource",
        ),
        pytest.param(
            {"fileKeyRef": {"key": "k"}},
            ["env V: fileKeyRef is not supported here, so the variable is not set"],
            id="file",
        ),
        pytest.param({"new": {}}, ["env V: new is not supported here, so the variable is not set"], id="unknown kind"),
    ],
)
def test_sources_without_a_value(source: dict[str, Any], problems: list[str]) -> None:
    assert env(sourced(**source)) == ({}, problems)


def test_a_zero_byte_is_refused() -> None:
    found, problems = env(sourced(secretKeyRef={"name": "token", "key": "zero"}))
    assert found == {"V": "a\0b"}
    assert problems == ["! env V: contains a zero byte, which no variable can"]


def test_resources_of_the_container_then_of_the_pod_then_of_the_machine() -> None:
    own = {"limits": {"cpu": "1500m"}, "requests": {"memory": "1Gi"}}
    refs = ("limits.cpu", "requests.cpu", "requests.memory", "limits.memory")
    container = {
        "resources": own,
        "env": [{"name": ref, "valueFrom": {"resourceFieldRef": {"resource": ref}}} for ref in refs],
    }
    found, _ = env(container, resources={"limits": {"memory": "2Gi"}})
    assert found == dict(zip(refs, ("2", "2", str(2**30), str(2**31)), strict=True))


def test_resources_of_another_container() -> None:
    other = {"name": "other", "resources": {"limits": {"cpu": "7", "memory": "0"}}}
    ref = {"resource": "limits.cpu", "containerName": "other"}
    found, _ = env(sourced(resourceFieldRef=ref), initContainers=[other])
    assert found == {"V": "7"}


def test_complete_env() -> None:
    found = complete_env(
        {"A": "declared"},
        "host",
        {"A": "image", "B": "image", "HOSTNAME": "builder", "G": "image", "N": "image"},
        defaults={"N": "default", "D": "default"},
        given={"A": "given", "G": "given"},
    )
    assert found == {
        "PATH": DEFAULT_PATH,
        "HOME": "/root",
        "HOSTNAME": "host",
        "A": "given",
        "B": "image",
        "G": "given",
        "N": "image",
        "D": "default",
    }


VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": "", "with space": "s", "$(A": "odd"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(B)", "$(A)"),
        ("$(EMPTY)", ""),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
        ("$", "$"),
        ("a$", "a$"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$(A $$", "$(A $"),
        ("$()", "$()"),
        ("$(with space)", "s"),
        ("$($(A))", "odd)"),
        ("$(\n)", "$(\n)"),
        ("price: $5", "price: $5"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


def test_expand_all() -> None:
    assert expand_all(["$(A)", "b"], VARIABLES) == ("1", "b")


def test_unknown_references() -> None:
    assert unknown_references("$(A) $(X) $$(Y) $(Z)", VARIABLES) == ["X", "Z"]
