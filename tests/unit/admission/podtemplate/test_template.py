from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.podtemplate import check_claim_spec, check_template
from pumice.model.findings import ROOT, SPEC
from tests.conftest import SOAK, seed
from tests.unit.admission.podtemplate.samples import SCHEMA, container, pod, rows


def template(value: dict[str, object]) -> list[str]:
    return rows(check_template(value, ROOT, SCHEMA))


def test_a_plain_template_is_fine() -> None:
    assert template({"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}, "spec": pod()}) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({}, ["spec.containers: must have at least one container"], id="nothing at all"),
        pytest.param({"spec": {}}, ["spec.containers: is required"], id="one finding a place: the shape speaks first"),
        pytest.param({"spec": "x"}, ["spec: must be a mapping, found a string"], id="no spec to apply rules to"),
        pytest.param(
            {"spec": {"containers": "x"}},
            ["spec.containers: must be a list, found a string"],
            id="no list of containers",
        ),
        pytest.param(
            {"spec": {"containers": [5]}},
            ["spec.containers[0]: must be a mapping, found a number"],
            id="a container that is none",
        ),
        pytest.param(
            {"spec": pod(containers=[{"name": 5, "image": "", "bogus": 1, "imagePullPolicy": "Often"}])},
            [
                "spec.containers[0].name: must be a string, found a number",
                "spec.containers[0].bogus: unknown field",
                "spec.containers[0].image: is required",
                "spec.containers[0].imagePullPolicy: must be Always, IfNotPresent or Never",
            ],
            id="shape and rules at once",
        ),
        pytest.param(
            {"spec": pod(restartPolicy="Sometimes")},
            ["spec.restartPolicy: must be Always, OnFailure or Never"],
            id="enum",
        ),
        pytest.param(
            {"spec": pod(ephemeralContainers=[container(name="debug")])},
            ["spec.ephemeralContainers: cannot be part of a template: they are added to a running pod, to debug it"],
            id="ephemeral containers",
        ),
    ],
)
def test_findings(value: dict[str, object], expected: list[str]) -> None:
    assert template(value) == expected


def test_a_claim_is_checked_by_shape_and_rules() -> None:
    spec: dict[str, object] = {"accessModes": ["ReadWriteOnce", 5], "resources": {"requests": {"storage": "0"}}, "x": 1}
    assert rows(check_claim_spec(spec, SPEC, SCHEMA)) == [
        "spec.accessModes[1]: must be a string, found a number",
        "spec.x: unknown field",
        "spec.resources.requests.storage: must be above 0",
    ]


WRONG: tuple[object, ...] = (
    *(None, "", "x", 5, -1, 1.5, True, False),
    *([], {}, [None], ["x"], [5], [{}], [[]], {"x": 5}, {5: "x"}, {"x": None}),
)


def _everything(type_: str, depth: int) -> Any:
    """A value with every field of a type, to a depth."""
    if type_.startswith("[]"):
        return [_everything(type_[2:], depth)]
    if type_.startswith("{}"):
        return {"k": _everything(type_[2:], depth)}
    if type_ in SCHEMA:
        return {key: _everything(kind, depth - 1) for key, kind in SCHEMA[type_].fields.items()} if depth else {}
    return {"string": "x", "bool": True, "quantity": "1", "time": "x", "bytes": "x"}.get(type_, 1)


def _slots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as the structure and the key or index in it."""
    if not isinstance(value, (dict, list)):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [slot for key in keys for slot in _slots(value[key])]


@pytest.mark.parametrize("turn", range(9) if SOAK else [seed() % 9], ids=lambda turn: f"turn {turn}")
def test_no_value_anywhere_makes_the_rules_raise(turn: int) -> None:
    """Each place in turn has something wrong; which place has what differs by the turn."""
    document = _everything("PodTemplateSpec", 6)
    del document["spec"]["ephemeralContainers"]
    for number, (structure, key) in enumerate(_slots(document)):
        if number % 9 != turn:
            continue
        kept = structure[key]
        structure[key] = WRONG[number // 9 % len(WRONG)]
        assert all(finding.message for finding in check_template(document, ROOT, SCHEMA))
        structure[key] = kept
