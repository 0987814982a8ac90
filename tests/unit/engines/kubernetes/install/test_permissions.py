from __future__ import annotations

import pytest

from pumice.engines.kubernetes.install.names import GANGS
from pumice.engines.kubernetes.install.permissions import GRANTS, Grant, granted

CREATORS = {"create"}


def of(who: str, gang: str = "auto") -> list[Grant]:
    return [grant for grant in granted(gang) if grant.who == who]


def verbs(who: str, group: str, resource: str, *, at_home: bool = False, gang: str = "auto") -> set[str]:
    return {
        verb
        for grant in of(who, gang)
        if grant.group == group and resource in grant.resources and grant.at_home == at_home
        for verb in grant.verbs
    }


def test_the_controller_neither_reads_nor_lists_secrets() -> None:
    assert verbs("controller", "", "secrets") == {"create", "patch", "delete"}
    assert verbs("controller", "", "secrets", at_home=True) == set()


def test_the_webhook_reads_its_own_secret_and_no_other() -> None:
    grants = [grant for grant in of("webhook") if "secrets" in grant.resources]
    assert [(grant.named, grant.at_home, grant.verbs) for grant in grants] == [
        (("pumice-webhook-certificates",), True, ("get", "update"))
    ]


def test_webhook_configurations_are_touched_by_name_only() -> None:
    for grant in of("webhook"):
        if grant.group in ("admissionregistration.k8s.io", "apiextensions.k8s.io"):
            assert grant.named


@pytest.mark.parametrize("grant", GRANTS, ids=lambda grant: f"{grant.who}-{grant.resources[0]}-{grant.verbs[0]}")
def test_nothing_is_granted_by_a_star(grant: Grant) -> None:
    assert "*" not in (grant.group, *grant.resources, *grant.verbs)
    assert grant.why


@pytest.mark.parametrize("grant", GRANTS, ids=lambda grant: f"{grant.who}-{grant.resources[0]}-{grant.verbs[0]}")
def test_names_do_not_limit_what_they_cannot(grant: Grant) -> None:
    assert not (grant.named and {"create", "list", "watch"} & set(grant.verbs))


@pytest.mark.parametrize(
    ("gang", "groups"),
    [
        pytest.param("auto", {"scheduling.volcano.sh", "scheduling.k8s.io", "scheduling.x-k8s.io"}, id="auto"),
        pytest.param("volcano", {"scheduling.volcano.sh"}, id="volcano"),
        pytest.param("native", {"scheduling.k8s.io"}, id="native"),
        pytest.param("coscheduling", {"scheduling.x-k8s.io"}, id="coscheduling"),
        pytest.param("none", set(), id="none"),
    ],
)
def test_pod_groups_of_the_chosen_provider_only(gang: str, groups: set[str]) -> None:
    assert {grant.group for grant in granted(gang) if "podgroups" in grant.resources} == groups


@pytest.mark.parametrize("gang", GANGS)
def test_what_nobody_may_do(gang: str) -> None:
    forbidden = {"nodes", "namespaces", "serviceaccounts", "roles", "clusterroles", "pods/exec", "pods/log"}
    for grant in granted(gang):
        assert not forbidden & set(grant.resources)
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(grant.verbs)


def test_without_the_webhook_nothing_is_granted_to_it() -> None:
    assert {grant.who for grant in granted("auto", webhook=False)} == {"controller"}
