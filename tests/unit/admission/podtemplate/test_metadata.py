from __future__ import annotations

import pytest

from pumice.admission.podtemplate import check_template
from pumice.model.findings import ROOT
from tests.unit.admission.podtemplate.samples import SCHEMA, in_container, pod, rows

NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def findings_of(metadata: object, spec: dict[str, object] | None = None) -> list[str]:
    return rows(check_template({"metadata": metadata, "spec": spec or pod()}, ROOT, SCHEMA))


def annotated(key: str, value: str, spec: dict[str, object] | None = None) -> list[str]:
    return findings_of({"annotations": {key: value}}, spec)


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": {"a": "", "example.com/A_b": "v1.0"}}, id="labels"),
        pytest.param({"annotations": {"Example.com/A": "any text at all, é, \n"}}, id="annotations in any case"),
        pytest.param({"annotations": {"a": "x" * (256 * 1024 - 1)}}, id="as many annotations as fit"),
        pytest.param({"creationTimestamp": None}, id="what tools leave behind"),
    ],
)
def test_valid(metadata: object) -> None:
    assert findings_of(metadata) == []


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {"labels": {"a b": "c d", "e": "x" * 64}},
            [
                f"labels[a b]: the key {NAME}",
                f"labels[a b]: {NAME}",
                "labels.e: must be at most 63 characters, this has 64",
            ],
            id="labels",
        ),
        pytest.param({"annotations": {"a b": "c d"}}, [f"annotations[a b]: the key {NAME}"], id="annotation"),
        pytest.param(
            {"annotations": {"a": "é" * 128 * 1024}},
            ["annotations: must be at most 256 KiB together, these are 257 KiB"],
            id="too many annotations",
        ),
        pytest.param({"labels": {"a": 1}}, ["labels.a: must be a string, found a number"], id="a label without quotes"),
        pytest.param(
            {"annotations": {"a": 1}},
            ["annotations.a: must be a string, found a number"],
            id="annotation without quotes",
        ),
    ],
)
def test_refused(metadata: object, expected: list[str]) -> None:
    assert findings_of(metadata) == [f"metadata.{text}" for text in expected]


def test_what_has_no_effect_is_a_warning() -> None:
    assert findings_of({"name": "x", "namespace": "y"}) == [
        f"warning: metadata.{key}: has no effect in a pod template, where only labels and annotations count"
        for key in ("name", "namespace")
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("controller.kubernetes.io/pod-deletion-cost", "-5", id="cost"),
        pytest.param(f"{APPARMOR}main", "localhost/x", id="apparmor"),
        pytest.param(SECCOMP, "docker/default", id="seccomp"),
        pytest.param(
            f"{SECCOMP_CONTAINER}other", "localhost/a/b", id="seccomp of a container, whether it is there or not"
        ),
    ],
)
def test_known_annotations_are_fine(key: str, value: str) -> None:
    assert annotated(key, value) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(
            "controller.kubernetes.io/pod-deletion-cost", "+5", "must be a whole number of 32 bits", id="a sign in cost"
        ),
        pytest.param(
            "controller.kubernetes.io/pod-deletion-cost",
            "2147483648",
            "must be a whole number of 32 bits",
            id="high cost",
        ),
        pytest.param(
            "kubernetes.io/config.mirror", "x", "is for static pods of a node, and needs spec.nodeName", id="mirror"
        ),
        pytest.param(f"{APPARMOR}other", "unconfined", "no container of the pod has this name", id="apparmor of none"),
        pytest.param(
            f"{APPARMOR}main", "x", "must be runtime/default, unconfined or localhost/<profile>", id="apparmor profile"
        ),
        pytest.param(
            SECCOMP, "x", "must be runtime/default, unconfined or localhost/<relative path>", id="seccomp profile"
        ),
        pytest.param(
            f"{SECCOMP_CONTAINER}main",
            "localhost/../x",
            "must be runtime/default, unconfined or localhost/<relative path>",
            id="seccomp elsewhere",
        ),
        pytest.param(
            SECCOMP,
            "localhost//x",
            "must be runtime/default, unconfined or localhost/<relative path>",
            id="seccomp of the whole node",
        ),
    ],
)
def test_known_annotations(key: str, value: str, expected: str) -> None:
    assert annotated(key, value) == [f"metadata.annotations[{key}]: {expected}"]


def test_a_mirror_pod_with_its_node() -> None:
    assert annotated("kubernetes.io/config.mirror", "x", pod(nodeName="n")) == []


def profiled(key: str, **profile: object) -> dict[str, object]:
    return in_container(securityContext={key: profile})


@pytest.mark.parametrize(
    ("key", "value", "spec"),
    [
        pytest.param(
            f"{APPARMOR}main", "runtime/default", profiled("appArmorProfile", type="RuntimeDefault"), id="same"
        ),
        pytest.param(
            f"{APPARMOR}main",
            "localhost/a",
            profiled("appArmorProfile", type="Localhost", localhostProfile="a"),
            id="same profile",
        ),
        pytest.param(
            f"{SECCOMP_CONTAINER}main",
            "docker/default",
            profiled("seccompProfile", type="RuntimeDefault"),
            id="the old name of the default",
        ),
        pytest.param(f"{APPARMOR}main", "unconfined", pod(os={"name": "windows"}), id="windows"),
    ],
)
def test_annotations_that_agree_with_fields(key: str, value: str, spec: dict[str, object]) -> None:
    assert annotated(key, value, spec) == []


@pytest.mark.parametrize(
    ("key", "value", "spec", "at"),
    [
        pytest.param(
            f"{APPARMOR}main",
            "unconfined",
            profiled("appArmorProfile", type="RuntimeDefault"),
            "spec.containers[0].securityContext.appArmorProfile",
            id="apparmor of a container",
        ),
        pytest.param(
            f"{APPARMOR}main",
            "localhost/b",
            pod(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}),
            "spec.securityContext.appArmorProfile",
            id="apparmor of the pod",
        ),
        pytest.param(
            SECCOMP,
            "runtime/default",
            pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            "spec.securityContext.seccompProfile",
            id="seccomp of the pod",
        ),
        pytest.param(
            f"{SECCOMP_CONTAINER}main",
            "unconfined",
            profiled("seccompProfile", type="RuntimeDefault"),
            "spec.containers[0].securityContext.seccompProfile",
            id="seccomp of a container",
        ),
    ],
)
def test_annotations_that_contradict_fields(key: str, value: str, spec: dict[str, object], at: str) -> None:
    assert annotated(key, value, spec) == [f"{at}.type: contradicts the annotation {key}, which says {value}"]
