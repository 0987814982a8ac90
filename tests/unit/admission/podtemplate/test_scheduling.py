from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import pod, rules

NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}


def tolerates(**fields: object) -> dict[str, object]:
    return pod(tolerations=[fields])


def spread(**fields: object) -> dict[str, object]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return pod(topologySpreadConstraints=[constraint])


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(pod(nodeSelector={"a/b": "", "c": "d"}, nodeName="n.1", priorityClassName="high"), id="plain"),
        pytest.param(pod(preemptionPolicy="Never"), id="preemption"),
        pytest.param(tolerates(operator="Exists"), id="every taint"),
        pytest.param(tolerates(key="a", value="b", effect="NoExecute", tolerationSeconds=0), id="for a time"),
        pytest.param(tolerates(key="a", operator="Equal", value=""), id="an empty value"),
        pytest.param(tolerates(key="a", operator="Gt", value="-5"), id="a number"),
        pytest.param(spread(minDomains=1, nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"), id="spread"),
        pytest.param(spread(labelSelector=SELECTOR, matchLabelKeys=["c"]), id="spread some"),
        pytest.param(pod(readinessGates=[{"conditionType": "a/b"}], schedulingGates=[{"name": "c"}]), id="gates"),
        pytest.param(
            pod(
                resourceClaims=[
                    {"name": "a", "resourceClaimName": "x"},
                    {"name": "b", "resourceClaimTemplateName": "y"},
                ]
            ),
            id="claims",
        ),
        pytest.param(pod(schedulingGroup={"podGroupName": "g"}), id="a gang"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod(nodeSelector={"a b": "c d", "e": "x" * 64}),
            [
                f"nodeSelector[a b]: the key {NAME}",
                f"nodeSelector[a b]: {NAME}",
                "nodeSelector.e: must be at most 63 characters, this has 64",
            ],
            id="labels of nodes",
        ),
        pytest.param(pod(nodeName="N"), [f"nodeName: {SUBDOMAIN}"], id="node"),
        pytest.param(pod(priorityClassName="N"), [f"priorityClassName: {SUBDOMAIN}"], id="priority class"),
        pytest.param(
            pod(preemptionPolicy=""), ["preemptionPolicy: must be PreemptLowerPriority or Never"], id="preemption"
        ),
        pytest.param(
            tolerates(key="a b", operator="Like", effect="Kill"),
            [
                f"tolerations[0].key: {NAME}",
                "tolerations[0].operator: must be Equal, Exists, Lt or Gt",
                "tolerations[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute",
            ],
            id="words of a toleration",
        ),
        pytest.param(
            tolerates(value="x"), ["tolerations[0].operator: must be Exists when there is no key"], id="without a key"
        ),
        pytest.param(
            tolerates(key="a", tolerationSeconds=5),
            ["tolerations[0].effect: must be NoExecute when tolerationSeconds is set"],
            id="for a time",
        ),
        pytest.param(tolerates(key="a", value="b c"), [f"tolerations[0].value: {NAME}"], id="value"),
        pytest.param(
            tolerates(operator="Exists", value="x"), ["tolerations[0].value: cannot be set with Exists"], id="any value"
        ),
        pytest.param(
            tolerates(key="a", operator="Lt", value="05"),
            ["tolerations[0].value: must be a whole number for Lt"],
            id="number",
        ),
        pytest.param(
            tolerates(key="a", operator="Gt", value=str(2**63)),
            ["tolerations[0].value: must be a whole number for Gt"],
            id="large number",
        ),
        pytest.param(
            pod(topologySpreadConstraints=[{}]),
            [
                "topologySpreadConstraints[0].maxSkew: is required",
                "topologySpreadConstraints[0].topologyKey: is required",
                "topologySpreadConstraints[0].whenUnsatisfiable: is required: DoNotSchedule or ScheduleAnyway",
            ],
            id="empty constraint",
        ),
        pytest.param(
            spread(
                maxSkew=0, minDomains=0, whenUnsatisfiable="ScheduleAnyway", nodeAffinityPolicy="", nodeTaintsPolicy="x"
            ),
            [
                "topologySpreadConstraints[0].maxSkew: must be 1 or more",
                "topologySpreadConstraints[0].minDomains: must be 1 or more",
                "topologySpreadConstraints[0].minDomains: needs whenUnsatisfiable DoNotSchedule",
                "topologySpreadConstraints[0].nodeAffinityPolicy: must be Honor or Ignore",
                "topologySpreadConstraints[0].nodeTaintsPolicy: must be Honor or Ignore",
            ],
            id="constraint",
        ),
        pytest.param(
            spread(matchLabelKeys=["a"]),
            ["topologySpreadConstraints[0].matchLabelKeys: cannot be set without labelSelector"],
            id="keys without a selector",
        ),
        pytest.param(
            spread(matchLabelKeys=["a", "k", "-"], labelSelector=SELECTOR),
            [
                f"topologySpreadConstraints[0].matchLabelKeys[2]: {NAME}",
                "topologySpreadConstraints[0].matchLabelKeys[0]: cannot be in both matchLabelKeys and labelSelector",
                "topologySpreadConstraints[0].matchLabelKeys[1]: cannot be in both matchLabelKeys and labelSelector",
            ],
            id="keys of the selector",
        ),
        pytest.param(
            pod(readinessGates=[{}], schedulingGates=[{"name": "a"}, {"name": "a"}], nodeName="n"),
            [
                "readinessGates[0].conditionType: is required",
                "schedulingGates[1].name: this gate is already used at spec.schedulingGates[0].name",
                "nodeName: cannot be set while schedulingGates hold the pod back",
            ],
            id="gates",
        ),
        pytest.param(
            pod(resourceClaims=[{"name": "a", "resourceClaimName": ""}, {"name": "a"}]),
            [
                f"resourceClaims[0].resourceClaimName: {SUBDOMAIN}",
                "resourceClaims[1].name: this name is already used at spec.resourceClaims[0].name",
                "resourceClaims[1]: must have exactly one of resourceClaimName and resourceClaimTemplateName",
            ],
            id="claims",
        ),
        pytest.param(
            pod(schedulingGroup={}, evictionResponders=[{"name": "a/b"}]),
            [
                "schedulingGroup.podGroupName: is required",
                "schedulingGroup: cannot be set together with evictionResponders",
            ],
            id="a gang",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.{text}" for text in expected]


def test_two_constraints_of_one_kind() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    at = "spec.topologySpreadConstraints"
    assert rules(pod(topologySpreadConstraints=[constraint, constraint])) == [
        f"{at}[1]: this pair of topologyKey and whenUnsatisfiable is already used at {at}[0]"
    ]


def test_a_priority_of_one_s_own_is_a_warning() -> None:
    assert rules(pod(priority=5)) == [
        "warning: spec.priority: is computed from priorityClassName; the cluster refuses a pod with another value"
    ]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def needs_node(*terms: object) -> dict[str, object]:
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


def expression(**fields: object) -> dict[str, object]:
    return needs_node({"matchExpressions": [{"key": "a", **fields}]})


def needs_pod(**fields: object) -> dict[str, object]:
    return pod(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone", **fields}]}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(expression(operator="In", values=["a", ""]), id="in"),
        pytest.param(expression(operator="Gt", values=["1"]), id="greater"),
        pytest.param(
            needs_node({"matchFields": [{"key": "a", "operator": "Exists", "values": ["N"]}]}),
            id="fields, which only the API server checks",
        ),
        pytest.param(
            pod(
                affinity={
                    "nodeAffinity": {
                        PREFERRED: [
                            {
                                "weight": 1,
                                "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]},
                            }
                        ]
                    }
                }
            ),
            id="a wish for what no node has",
        ),
        pytest.param(
            needs_pod(
                labelSelector=SELECTOR,
                namespaceSelector={},
                namespaces=["a"],
                matchLabelKeys=["x"],
                mismatchLabelKeys=["y"],
            ),
            id="beside pods",
        ),
        pytest.param(
            pod(affinity={"podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": {"topologyKey": "z"}}]}}),
            id="rather not beside pods",
        ),
    ],
)
def test_affinity_is_fine(spec: dict[str, object]) -> None:
    assert rules(spec) == []


TERM = f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"
FIRST = f"podAffinity.{REQUIRED}[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            needs_node(), [f"nodeAffinity.{REQUIRED}.nodeSelectorTerms: must have at least one term"], id="no term"
        ),
        pytest.param(
            needs_node({"matchExpressions": [{}]}),
            [
                f"{TERM}.matchExpressions[0].key: is required",
                f"{TERM}.matchExpressions[0].operator: is required: In, NotIn, Exists, DoesNotExist, Gt or Lt",
            ],
            id="empty expression",
        ),
        pytest.param(
            expression(operator="In"),
            [f"{TERM}.matchExpressions[0].values: must have at least one value for In"],
            id="in nothing",
        ),
        pytest.param(
            expression(operator="Exists", values=["a"]),
            [f"{TERM}.matchExpressions[0].values: cannot be set with Exists"],
            id="exists with a value",
        ),
        pytest.param(
            expression(operator="Lt", values=["1", "2"]),
            [f"{TERM}.matchExpressions[0].values: must be exactly one value for Lt"],
            id="less than two",
        ),
        pytest.param(
            expression(operator="NotIn", values=["b c"]), [f"{TERM}.matchExpressions[0].values[0]: {NAME}"], id="value"
        ),
        pytest.param(
            pod(affinity={"nodeAffinity": {PREFERRED: [{"weight": 101}, {}]}}),
            [
                f"nodeAffinity.{PREFERRED}[0].weight: must be from 1 to 100",
                f"nodeAffinity.{PREFERRED}[1].weight: is required",
            ],
            id="weight",
        ),
        pytest.param(
            pod(affinity={"podAffinity": {REQUIRED: [{}]}}), [f"{FIRST}.topologyKey: is required"], id="where"
        ),
        pytest.param(
            needs_pod(
                labelSelector={"matchLabels": {"a": "b c"}, "matchExpressions": [{"key": "k", "operator": "Gt"}]}
            ),
            [
                f"{FIRST}.labelSelector.matchLabels.a: {NAME}",
                f"{FIRST}.labelSelector.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist",
            ],
            id="selector",
        ),
        pytest.param(
            needs_pod(labelSelector={"matchExpressions": [{"key": "k", "operator": "In", "values": ["b c"]}]}),
            [f"{FIRST}.labelSelector.matchExpressions[0].values[0]: {NAME}"],
            id="value in a selector",
        ),
        pytest.param(needs_pod(namespaces=["A"]), [f"{FIRST}.namespaces[0]: {LABEL}"], id="namespace"),
        pytest.param(
            needs_pod(labelSelector={}, matchLabelKeys=["a"], mismatchLabelKeys=["a"]),
            [f"{FIRST}.matchLabelKeys[0]: cannot be in both matchLabelKeys and mismatchLabelKeys"],
            id="a key for both",
        ),
        pytest.param(
            needs_pod(mismatchLabelKeys=["a"]),
            [f"{FIRST}.mismatchLabelKeys: cannot be set without labelSelector"],
            id="keys without a selector",
        ),
    ],
)
def test_affinity_is_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.affinity.{text}" for text in expected]
