from __future__ import annotations

import pytest

from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install.permissions import GRANTS, Grant, granted


def grants_of(component: str) -> list[Grant]:
    return [grant for grant in granted("auto") if grant.component == component]


def test_the_controller_may_neither_get_nor_list_secrets() -> None:
    grants = [grant for grant in grants_of("controller") if "secrets" in grant.resources]
    assert [grant.verbs for grant in grants] == [("create", "patch", "delete")]


def test_the_webhook_may_read_only_its_own_secret() -> None:
    grants = [grant for grant in grants_of("webhook") if "secrets" in grant.resources]
    assert [(grant.resource_names, grant.own_namespace, grant.verbs) for grant in grants] == [
        (("pumice-webhook-certificates",), True, ("get", "update", "watch"))
    ]


def test_webhook_configurations_and_definitions_are_granted_by_name() -> None:
    for grant in grants_of("webhook"):
        if grant.group in ("admissionregistration.k8s.io", "apiextensions.k8s.io"):
            assert grant.resource_names


def test_every_grant_has_a_reason_and_no_wildcard() -> None:
    for grant in GRANTS:
        assert "*" not in (grant.group, *grant.resources, *grant.verbs)
        assert grant.reason


def test_resource_names_are_used_only_with_verbs_that_rbac_can_restrict_by_name() -> None:
    for grant in GRANTS:
        # A watch of one object by a field selector can be restricted; see CertificateStorage.
        assert not (grant.resource_names and {"create", "list"} & set(grant.verbs)), grant


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
def test_only_pod_groups_of_the_chosen_provider_are_granted(gang: str, groups: set[str]) -> None:
    assert {grant.group for grant in granted(gang) if "podgroups" in grant.resources} == groups


@pytest.mark.parametrize("gang", CHOICES)
def test_dangerous_resources_and_verbs_are_not_granted(gang: str) -> None:
    forbidden = {"nodes", "namespaces", "serviceaccounts", "roles", "clusterroles", "pods/exec", "pods/log"}
    for grant in granted(gang):
        assert not forbidden & set(grant.resources)
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(grant.verbs)


def test_logs_are_read_only_where_their_tails_are_kept() -> None:
    extra = [grant for grant in granted("auto", log_tails=True) if grant not in list(granted("auto"))]
    assert [(grant.resources, grant.verbs) for grant in extra] == [(("pods/log",), ("get",))]


def test_without_the_webhook_only_the_controller_has_grants() -> None:
    assert {grant.component for grant in granted("auto", webhook=False)} == {"controller"}
