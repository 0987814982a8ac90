from __future__ import annotations

import pytest

from pumice.engines.kubernetes.gangs.choice import GangError, choose

VOLCANO = "scheduling.volcano.sh/v1beta1/podgroups"
NATIVE = "scheduling.k8s.io/v1beta1/podgroups"
OLDER = "scheduling.k8s.io/v1alpha2/podgroups"
PLUGIN = "scheduling.x-k8s.io/v1alpha1/podgroups"


@pytest.mark.parametrize(
    ("requested", "offered", "expected"),
    [
        pytest.param("auto", {VOLCANO, NATIVE, PLUGIN}, ("volcano", VOLCANO), id="auto prefers volcano"),
        pytest.param("auto", {NATIVE, OLDER, PLUGIN}, ("native", NATIVE), id="auto: then native, its newest version"),
        pytest.param("auto", {OLDER}, ("native", OLDER), id="auto: native of Kubernetes 1.36"),
        pytest.param("auto", {PLUGIN}, ("coscheduling", PLUGIN), id="auto: then coscheduling"),
        pytest.param("auto", set(), ("none", ""), id="auto: none"),
        pytest.param("none", {VOLCANO}, ("none", ""), id="none is requested"),
        pytest.param("native", {VOLCANO, NATIVE}, ("native", NATIVE), id="native is requested"),
    ],
)
def test_choice(requested: str, offered: set[str], expected: tuple[str, str]) -> None:
    name, resource = choose(requested, frozenset(offered))
    assert (name, resource.identity if resource is not None else "") == expected


@pytest.mark.parametrize(
    ("requested", "hint"),
    [
        pytest.param("volcano", "pumice install --gang volcano", id="volcano"),
        pytest.param("native", "GenericWorkload=true", id="native"),
        pytest.param("coscheduling", "coscheduling plugin", id="coscheduling"),
    ],
)
def test_a_provider_that_the_cluster_lacks_is_an_error_with_a_hint(requested: str, hint: str) -> None:
    with pytest.raises(GangError, match=f"--gang {requested}: the cluster does not serve") as error:
        choose(requested, frozenset({"v1/pods"}))
    assert hint in error.value.hint
