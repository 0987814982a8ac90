from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import pod, rules

SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod(restartPolicy="", activeDeadlineSeconds=1, terminationGracePeriodSeconds=0), id="life"),
        pytest.param(pod(serviceAccount="A", serviceAccountName="a"), id="the old name of the account does not count"),
        pytest.param(pod(runtimeClassName="a.b"), id="runtime class"),
        pytest.param(pod(evictionResponders=[{"name": "example.com/a", "priority": 1000}]), id="eviction"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod(restartPolicy="always"), ["restartPolicy: must be Always, OnFailure or Never"], id="restart"),
        pytest.param(
            pod(activeDeadlineSeconds=0), ["activeDeadlineSeconds: must be from 1 to 2147483647"], id="no time at all"
        ),
        pytest.param(pod(serviceAccountName="A"), [f"serviceAccountName: {SUBDOMAIN}"], id="account"),
        pytest.param(pod(serviceAccount="A"), [f"serviceAccount: {SUBDOMAIN}"], id="account by its old name"),
        pytest.param(pod(runtimeClassName=""), [f"runtimeClassName: {SUBDOMAIN}"], id="empty runtime class"),
        pytest.param(
            pod(evictionResponders=[{"name": f"example.com/{number}"} for number in range(11)]),
            ["evictionResponders: must be at most 10"],
            id="too many for an eviction",
        ),
        pytest.param(
            pod(evictionResponders=[{"name": "a"}, {"name": "-/a"}, {"name": "a/b"}, {"name": "a/b"}]),
            [
                "evictionResponders[0].name: must be a name with a domain before it, such as example.com/responder",
                "evictionResponders[1].name: must be a name with a domain before it, such as example.com/responder",
                "evictionResponders[3].name: this name is already used at spec.evictionResponders[2].name",
            ],
            id="names for an eviction",
        ),
        pytest.param(
            pod(evictionResponders=[{"name": "x.k8s.io/a", "priority": 999}]),
            [
                "evictionResponders[0].name: the domains k8s.io and kubernetes.io are reserved",
                "evictionResponders[0].priority: must be from 1000 to 100000",
            ],
            id="an eviction by kubernetes itself",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.{text}" for text in expected]


def test_a_negative_grace_is_a_warning() -> None:
    assert rules(pod(terminationGracePeriodSeconds=-5)) == [
        "warning: spec.terminationGracePeriodSeconds: should be 0 or more; Kubernetes uses 1 instead"
    ]
