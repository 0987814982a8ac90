from __future__ import annotations

from typing import Any

import pytest

from pumice.diagnosis.cluster.node_fit import fits, give_nodes
from pumice.model.quantity import Quantity
from tests.unit.diagnosis.cluster.readings import GPU, needs, node, pod

TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def tolerates(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}}


def expression(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "exclusion"),
    [
        pytest.param({}, "taint team=vision:NoSchedule", id="no toleration"),
        pytest.param(tolerates(key="team", value="vision"), "", id="equal"),
        pytest.param(tolerates(key="team", operator="Equal", value="x"), "taint team=vision:NoSchedule", id="other"),
        pytest.param(tolerates(key="team", operator="Exists", effect="NoSchedule"), "", id="exists"),
        pytest.param(tolerates(operator="Exists"), "", id="everything"),
        pytest.param(tolerates(key="x", operator="Exists"), "taint team=vision:NoSchedule", id="other key"),
        pytest.param(tolerates(operator="Exists", effect="NoExecute"), "taint team=vision:NoSchedule", id="effect"),
        pytest.param(tolerates(key="team", operator="Gt", value="vision"), "taint team=vision:NoSchedule", id="Gt"),
    ],
)
def test_a_taint_excludes_a_node_unless_it_is_tolerated(spec: dict[str, Any], exclusion: str) -> None:
    [fit] = fits(spec, [node("n1", TAINT)], {})
    assert fit.exclusion == exclusion
    assert fit.is_excluded == bool(exclusion)


def test_a_taint_that_only_prefers_other_pods_does_not() -> None:
    [fit] = fits({}, [node("n1", {**TAINT, "effect": "PreferNoSchedule"})], {})
    assert not fit.is_excluded


def test_a_cordoned_node_is_excluded_once_unless_that_is_tolerated() -> None:
    cordoned = node("n1", CORDON, unschedulable=True)
    assert [fit.exclusion for fit in fits({}, [cordoned], {})] == ["cordoned"]
    assert [fit.exclusion for fit in fits(tolerates(operator="Exists"), [cordoned], {})] == [""]


@pytest.mark.parametrize(
    ("spec", "selector"),
    [
        pytest.param({"nodeSelector": {"zone": "a", "rank": "7"}}, (), id="labels"),
        pytest.param({"nodeSelector": {"zone": "b", "x": "y"}}, ("zone=b", "x=y"), id="other labels"),
        pytest.param(affinity(expression("In", "a", "b")), (), id="In"),
        pytest.param(affinity(expression("In", "b", "c")), ("nodeAffinity zone In (b, c)",), id="not In"),
        pytest.param(affinity(expression("NotIn", "b")), (), id="NotIn"),
        pytest.param(affinity(expression("Exists")), (), id="Exists"),
        pytest.param(affinity(expression("Exists", key="x")), ("nodeAffinity x Exists",), id="not Exists"),
        pytest.param(affinity(expression("DoesNotExist", key="x")), (), id="DoesNotExist"),
        pytest.param(affinity(expression("Gt", "6", key="rank")), (), id="Gt"),
        pytest.param(affinity(expression("Lt", "7", key="rank")), ("nodeAffinity rank Lt (7)",), id="not Lt"),
        pytest.param(affinity(expression("Gt", "6")), ("nodeAffinity zone Gt (6)",), id="not a number"),
        pytest.param(affinity(expression("Gt")), ("nodeAffinity zone Gt",), id="no number"),
        pytest.param(affinity(expression("Near", "a")), ("nodeAffinity zone Near (a)",), id="unknown operator"),
        pytest.param(affinity(expression("In", "b"), expression("In", "a")), (), id="one of two terms"),
        pytest.param(
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}),
            ("nodeAffinity metadata.name In (n2)",),
            id="the name of another node",
        ),
        pytest.param(affinity({}), ("nodeAffinity ",), id="an empty term matches nothing"),
    ],
)
def test_labels_that_a_pod_selects(spec: dict[str, Any], selector: tuple[str, ...]) -> None:
    [fit] = fits(spec, [node("n1", labels={"zone": "a", "rank": "7"})], {})
    assert fit.selector == selector


def test_the_best_node_is_open_and_lacks_the_least() -> None:
    nodes = [node("tainted", TAINT), node("small", allocatable={GPU: "2"}), node("busy"), node("half")]
    usage = {"busy": {GPU: Quantity.parse("7")}, "half": {GPU: Quantity.parse("6"), "cpu": Quantity.parse("9")}}
    ranked = fits(needs(gpu="4", cpu="0")["spec"], nodes, usage)
    assert [fit.node for fit in ranked] == ["half", "busy", "small", "tainted"]
    assert [[(each.resource, each.free) for each in fit.short] for fit in ranked] == [
        [(GPU, "2")],
        [(GPU, "1")],
        [(GPU, "2")],
        [],
    ]
    assert [bool(fit.too_small) for fit in ranked] == [False, False, True, False]


def test_pods_are_placed_one_by_one() -> None:
    pods = [pod(f"worker-{index}", spec=needs(gpu="5")["spec"]) for index in range(3)]
    usage = give_nodes(pods, [node("n1"), node("n2")], {})
    assert {name: str(used[GPU]) for name, used in usage.items()} == {"n1": "5", "n2": "5"}
