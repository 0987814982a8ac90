from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pumice.model.codec import JOB_TYPES, _edited, decode
from pumice.model.findings import ABSENT, Path
from pumice.model.job import Job, JobSpec, LifecyclePolicy, Metadata, TaskSpec
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import a_document, a_template

KUBERNETES = kubernetes_types().types


def spec_of(spec: dict[str, Any]) -> tuple[JobSpec, list[str], list[str]]:
    """The decoded spec, the findings as text, and the places that could not be read."""
    decoded = decode({"spec": spec}, KUBERNETES)
    assert decoded.complete == (not decoded.left_out)
    return (
        decoded.job.spec,
        [f"{finding.path}: {finding.message}" for finding in decoded.findings],
        [str(path) for path in decoded.left_out],
    )


def test_a_valid_document() -> None:
    decoded = decode({**a_document(), "status": {"whatever": 1}}, KUBERNETES)
    template = a_template(restartPolicy="Never")
    assert decoded.job == Job(
        metadata=Metadata(name="train"), spec=JobSpec(tasks=[TaskSpec(name="worker", replicas=1, template=template)])
    )
    assert (decoded.findings, decoded.complete) == ((), True)


def test_the_document_is_not_changed() -> None:
    document = a_document(plugins={"svc": None}, minAvailable="1")
    before = a_document(plugins={"svc": None}, minAvailable="1")
    decode({**document, "status": {}}, KUBERNETES)
    assert document == before


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, JobSpec(), id="empty"),
        pytest.param({"queue": None, "tasks": None}, JobSpec(), id="null is not set"),
        pytest.param({"plugins": {"svc": None}}, JobSpec(plugins={"svc": []}), id="a plugin without arguments"),
        pytest.param({"plugins": None}, JobSpec(), id="no plugins"),
        pytest.param(
            {"tasks": [{"template": {"spec": {"a": None}}}]},
            JobSpec(tasks=[TaskSpec(template={"spec": {"a": None}})]),
            id="templates are passed on as they are",
        ),
        pytest.param({"suspend": True}, JobSpec(suspend=True), id="a field beyond Volcano's"),
    ],
)
def test_read(spec: dict[str, Any], expected: JobSpec) -> None:
    assert spec_of(spec) == (expected, [], [])


@pytest.mark.parametrize(
    ("spec", "expected", "finding", "left_out"),
    [
        pytest.param(
            {"minAvailable": "2"},
            JobSpec(min_available=2),
            "spec.minAvailable: must be a whole number, found a string",
            [],
            id="a number in quotes",
        ),
        pytest.param(
            {"suspend": "true"},
            JobSpec(suspend=True),
            "spec.suspend: must be true or false, found a string",
            [],
            id="true",
        ),
        pytest.param(
            {"queue": 5}, JobSpec(queue="5"), "spec.queue: must be a string, found a number", [], id="a number"
        ),
        pytest.param(
            {"queue": True}, JobSpec(queue="true"), "spec.queue: must be a string, found a boolean", [], id="a boolean"
        ),
        pytest.param(
            {"tasks": {"name": "a"}},
            JobSpec(tasks=[TaskSpec(name="a")]),
            "spec.tasks: must be a list, found a mapping",
            [],
            id="a mapping for a list",
        ),
        pytest.param(
            {"policies": [{"events": "PodFailed"}]},
            JobSpec(policies=[LifecyclePolicy(events=["PodFailed"])]),
            "spec.policies[0].events: must be a list, found a string",
            [],
            id="a text for a list",
        ),
        pytest.param({"quueue": "x"}, JobSpec(), "spec.quueue: unknown field", [], id="an unknown field"),
        pytest.param(
            {"minAvailable": "two"},
            JobSpec(),
            "spec.minAvailable: must be a whole number, found a string",
            ["spec.minAvailable"],
            id="a text for a number",
        ),
        pytest.param(
            {"tasks": [{"name": "a"}, 5, {"name": "b"}]},
            JobSpec(tasks=[TaskSpec(name="a"), TaskSpec(), TaskSpec(name="b")]),
            "spec.tasks[1]: must be a mapping, found a number",
            ["spec.tasks[1]"],
            id="a task that is none keeps its place",
        ),
        pytest.param(
            {"tasks": 5}, JobSpec(), "spec.tasks: must be a list, found a number", ["spec.tasks"], id="no list"
        ),
        pytest.param(
            {5: "x"}, JobSpec(), "spec.5: the key must be a string, found a number", ["spec.5"], id="a number for a key"
        ),
        pytest.param(
            {"tasks": [{"template": {5: "x", "spec": {}}}]},
            JobSpec(tasks=[TaskSpec(template={"spec": {}})]),
            "spec.tasks[0].template.5: the key must be a string, found a number",
            ["spec.tasks[0].template.5"],
            id="a number for a key of a template",
        ),
        pytest.param(
            {"plugins": [1]}, JobSpec(), "spec.plugins: must be a mapping, found a list", ["spec.plugins"], id="plugins"
        ),
    ],
)
def test_misfits(spec: dict[Any, Any], expected: JobSpec, finding: str, left_out: list[str]) -> None:
    assert spec_of(spec) == (expected, [finding], left_out)


@pytest.mark.parametrize("spec", [[], 5, "x"])
def test_a_spec_that_is_none(spec: object) -> None:
    decoded = decode({"spec": spec}, KUBERNETES)
    assert decoded.job == Job()
    assert [str(path) for path in decoded.left_out] == ["spec"]


@pytest.mark.parametrize(
    "args", ["KEY", 7, ["x", 7], [["KEY"]], [{"KEY": 1}], {"ssh-private-key": "KEY"}, [None], True]
)
def test_arguments_of_a_plugin_are_never_shown(args: object) -> None:
    found = decode({"spec": {"plugins": {"ssh": args}}}, KUBERNETES).findings
    assert found
    for finding in found:
        assert finding.value is ABSENT
        assert "KEY" not in finding.hint


def test_the_hint_for_a_misplaced_argument() -> None:
    text, number = (decode({"spec": {"plugins": {"ssh": args}}}, KUBERNETES).findings[0] for args in ("KEY", [7]))
    assert text.hint == number.hint == "each argument is a string in a list"


def test_the_types_are_read_off_the_model() -> None:
    assert JOB_TYPES["Job"].fields == {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "ObjectMeta",
        "spec": "JobSpec",
        "status": "object",
    }
    assert JOB_TYPES["VolumeSpec"].fields == {
        "mountPath": "string",
        "volumeClaimName": "string",
        "volumeClaim": "object",
    }
    fields = JOB_TYPES["JobSpec"].fields
    assert (fields["plugins"], fields["tasks"], fields["minSuccess"]) == ("{}[]string", "[]TaskSpec", "int32")
    assert fields["suspend"] == "bool"


FIELDS = ["tasks", "policies", "volumes", "template", "volumeClaim"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_plugin_may_have_the_name_of_a_field(name: str) -> None:
    """A task that cannot be read is emptied; a plugin argument that cannot be read is left out."""
    spec, findings, left_out = spec_of({"plugins": {name: ["--a", None, {}]}})
    at = f"spec.plugins.{name}"
    assert spec.plugins == {name: ["--a"]}
    assert findings == [f"{at}[1]: must be a string, found null", f"{at}[2]: must be a string, found a mapping"]
    assert left_out == [f"{at}[1]", f"{at}[2]"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner),
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), JSON))
@example({"template": {}})
@example({"volumeClaim": [None]})
def test_plugin_arguments_of_any_shape_are_decoded(plugins: dict[str, Any]) -> None:
    decoded = decode({"spec": {"plugins": plugins}}, KUBERNETES)
    assert all(isinstance(arg, str) for args in decoded.job.spec.plugins.values() for arg in args or [])


def test_a_key_that_is_a_number_beside_one_that_looks_like_it() -> None:
    decoded = decode({"metadata": {"labels": {1: "a", "1": None}}}, KUBERNETES)
    assert [f"{finding.path}: {finding.message}" for finding in decoded.findings] == [
        "metadata.labels.1: the key must be a string, found a number",
        "metadata.labels.1: must be a string, found null",
    ]
    assert decoded.job.metadata.labels == {}


def test_an_edit_below_a_scalar_changes_nothing() -> None:
    assert _edited({"a": 1}, {Path(("a", "b")): str}) == {"a": 1}


@pytest.mark.parametrize("status", [5, [], {"state": 1}, None], ids=repr)
def test_a_status_is_not_read(status: object) -> None:
    """It is internal to the controller; a Job copied from a cluster has one."""
    decoded = decode({**a_document(), "status": status}, KUBERNETES)
    assert decoded == decode(a_document(), KUBERNETES)
    assert decoded.findings == ()
