from __future__ import annotations

import pytest

from pumice.engines.kubernetes.gangs.choice import GangError, chosen

VOLCANO = "scheduling.volcano.sh/v1beta1/podgroups"
NATIVE = "scheduling.k8s.io/v1beta1/podgroups"
OLDER = "scheduling.k8s.io/v1alpha2/podgroups"
PLUGIN = "scheduling.x-k8s.io/v1alpha1/podgroups"


@pytest.mark.parametrize(
    ("asked", "offered", "expected"),
    [
        pytest.param("auto", {VOLCANO, NATIVE, PLUGIN}, ("volcano", VOLCANO), id="Volcano first"),
        pytest.param("auto", {NATIVE, OLDER, PLUGIN}, ("native", NATIVE), id="then Kubernetes' own, the newest"),
        pytest.param("auto", {OLDER}, ("native", OLDER), id="of 1.36"),
        pytest.param("auto", {PLUGIN}, ("coscheduling", PLUGIN), id="then the plugin"),
        pytest.param("auto", set(), ("none", ""), id="nothing is there"),
        pytest.param("none", {VOLCANO}, ("none", ""), id="none is asked for"),
        pytest.param("native", {VOLCANO, NATIVE}, ("native", NATIVE), id="asked for"),
    ],
)
def test_what_serves(asked: str, offered: set[str], expected: tuple[str, str]) -> None:
    name, resource = chosen(asked, frozenset(offered))
    assert (name, resource.identity if resource is not None else "") == expected


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        pytest.param("volcano", "pumice install --gang volcano", id="volcano"),
        pytest.param("native", "GenericWorkload=true", id="native"),
        pytest.param("coscheduling", "coscheduling plugin", id="coscheduling"),
    ],
)
def test_what_is_not_there_is_refused_with_what_to_do(asked: str, hint: str) -> None:
    with pytest.raises(GangError, match=f"--gang {asked}: the cluster does not serve") as error:
        chosen(asked, frozenset({"v1/pods"}))
    assert hint in str(error.value)
