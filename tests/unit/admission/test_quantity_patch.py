from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.defaults import patch, with_defaults
from pumice.admission.quantity_patch import as_text
from pumice.admission.review import mutate
from pumice.model.codec import decode
from tests.builders import a_context, a_document
from tests.unit.admission.test_defaults import applied

TYPES = a_context().kubernetes
POD = "/spec/tasks/0/template/spec"


def container(**fields: Any) -> dict[str, Any]:
    return {"tasks": [{"template": {"spec": {"containers": [{"name": "a", **fields}]}}}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            container(resources={"limits": {"cpu": 0.5, "memory": "1Gi"}, "requests": {"cpu": 1}}),
            {f"{POD}/containers/0/resources/limits/cpu": "0.5"},
            id="only the fraction",
        ),
        pytest.param(
            container(resources={"limits": {"example.com/~a": 1.5}}),
            {f"{POD}/containers/0/resources/limits/example.com~1~0a": "1.5"},
            id="a name with a slash and a tilde",
        ),
        pytest.param(
            {"tasks": [{}, {"template": {"spec": {"volumes": [{"emptyDir": {"sizeLimit": 1e9}}]}}}]},
            {"/spec/tasks/1/template/spec/volumes/0/emptyDir/sizeLimit": "1000000000.0"},
            id="a field that is an amount",
        ),
        pytest.param(
            {"volumes": [{"volumeClaim": {"resources": {"requests": {"storage": 1.5}}}}]},
            {"/spec/volumes/0/volumeClaim/resources/requests/storage": "1.5"},
            id="a claim",
        ),
        pytest.param(container(livenessProbe={"periodSeconds": 1.5}), {}, id="no amount"),
        pytest.param(container(unknown={"cpu": 0.5}), {}, id="an unknown field"),
        pytest.param(container(resources=0.5), {}, id="another type"),
        pytest.param({"tasks": [{"template": {"spec": {"containers": 0.5}}}]}, {}, id="no list"),
        pytest.param({"tasks": ["text"], "volumes": {}}, {}, id="no task"),
        pytest.param("text", {}, id="no spec"),
    ],
)
def test_fractional_quantities_become_strings(spec: object, expected: dict[str, str]) -> None:
    operations = as_text({"spec": spec}, TYPES)
    assert {operation["path"]: operation["value"] for operation in operations} == expected
    assert all(operation["op"] == "add" for operation in operations)


def test_it_is_part_of_the_mutation_which_done_twice_changes_nothing() -> None:
    document = a_document(**container(image="b", resources={"limits": {"cpu": 0.5}}))
    decoded = decode(document, TYPES)
    filled = patch(document, decoded.job, with_defaults(decoded.job, a_context().registry))
    once = applied(document, [*filled, *as_text(document, TYPES)])
    assert once["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "0.5"}
    request = {"uid": "1", "operation": "CREATE", "object": once}
    assert mutate({"request": request}, a_context())["response"] == {"uid": "1", "allowed": True}
