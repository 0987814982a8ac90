from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import Manifest
from tests.builders import a_document
from tests.unit.admission.findings import Row, error, found, task, warning

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
QUALIFIED = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"


def named(metadata: Manifest, **spec: Any) -> Manifest:
    return {**a_document(**spec), "metadata": metadata}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {},
            error("metadata.name", "is missing", hint="give the job a name of lower-case letters, digits and '-'"),
            id="no name",
        ),
        pytest.param({"name": "My_Job"}, error("metadata.name", LABEL, "My_Job"), id="spelling"),
        pytest.param(
            {"name": "a.b"},
            error(
                "metadata.name",
                "must not contain dots: the names of its Service, volumes and hosts derive from it",
                "a.b",
                "for example a-b",
            ),
            id="dots",
        ),
        pytest.param(
            {"name": "a" * 64},
            error("metadata.name", "must be at most 63 characters, this has 64", "a" * 64),
            id="longer than a label",
        ),
        pytest.param({"name": "a", "namespace": "A"}, error("metadata.namespace", LABEL, "A"), id="namespace"),
        pytest.param(
            {"name": "a", "labels": {"app": "b c"}}, error("metadata.labels.app", QUALIFIED, "b c"), id="label's value"
        ),
        pytest.param(
            {"name": "a", "labels": {"b c": "d"}},
            error("metadata.labels[b c]", f"the key {QUALIFIED}", "b c"),
            id="label's key",
        ),
        pytest.param(
            {"name": "a", "annotations": {"x/y/z": ""}},
            error(
                "metadata.annotations[x/y/z]",
                "the key must be a name, or a DNS prefix and a name with one '/' between them",
                "x/y/z",
            ),
            id="annotation's key",
        ),
        pytest.param(
            {"name": "a", "annotations": {"x": "y" * 2**18}},
            error("metadata.annotations", "must be at most 256 KiB together, these are 257 KiB"),
            id="annotations that are too long",
        ),
        pytest.param(
            {"generateName": "a-"},
            warning("metadata.generateName", "the API server generates the name; shown here as a-xxxxx"),
            id="a name that is yet to be made",
        ),
    ],
)
def test_metadata(metadata: Manifest, expected: Row) -> None:
    assert found(named(metadata)) == [expected]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"name": "a", "generateName": "b-"}, id="a name wins"),
        pytest.param({"name": "a", "generateName": ""}, id="empty generateName"),
        pytest.param({"name": "4ever"}, id="a digit first"),
        pytest.param({"name": "a", "annotations": {"Example.COM/Some_Key": "any text"}}, id="annotation in any case"),
        pytest.param({"name": "a", "labels": {"example.com/Key": ""}}, id="empty label"),
    ],
)
def test_accepted_metadata(metadata: Manifest) -> None:
    assert found(named(metadata)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"tasks": [task("My_Task")]}, error("spec.tasks[0].name", LABEL, "My_Task"), id="task"),
        pytest.param(
            {"tasks": [task("t" * 64)]},
            error("spec.tasks[0].name", "must be at most 63 characters, this has 64", "t" * 64),
            id="task longer than a label; its pods are not reported, too",
        ),
        pytest.param({"queue": "Fast"}, error("spec.queue", SUBDOMAIN, "Fast"), id="queue"),
        pytest.param(
            {"queue": "q" * 64},
            error(
                "spec.queue", "must be at most 63 characters, this has 64; it becomes a label of every pod", "q" * 64
            ),
            id="queue longer than a label",
        ),
        pytest.param(
            {"priorityClassName": "High!"}, error("spec.priorityClassName", SUBDOMAIN, "High!"), id="priority class"
        ),
        pytest.param(
            {"schedulerName": "s" * 64},
            error("spec.schedulerName", "must be at most 63 characters, this has 64", "s" * 64),
            id="scheduler",
        ),
    ],
)
def test_names_in_the_spec(spec: Manifest, expected: Row) -> None:
    assert found(a_document(**spec)) == [expected]


def test_every_duplicate_task_name_is_reported() -> None:
    document = a_document(tasks=[task("a"), task("b"), task("a"), task("a")])
    assert found(document) == [
        error(f"spec.tasks[{position}].name", "must differ from that of spec.tasks[0]", "a") for position in (2, 3)
    ]


def test_a_default_name_may_be_taken() -> None:
    unnamed = {key: value for key, value in task().items() if key != "name"}
    assert found(a_document(tasks=[task("default1"), unnamed])) == [
        error("spec.tasks[1].name", "must differ from that of spec.tasks[0]", "default1")
    ]


# Each name is one character longer than what still fits: `a-<task>-<index>` in 63, and so on.
@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        pytest.param(
            "a",
            {"tasks": [task("t" * 58, 101)]},
            error(
                "spec.tasks[0].name",
                f"the pod name a-{'t' * 58}-100 would have 64 characters; 63 are allowed",
                "t" * 58,
                "shorten the name of the job or of the task by 1",
            ),
            id="pod with the highest index",
        ),
        pytest.param(
            "j" * 60,
            {"plugins": {"svc": []}, "tasks": [task("t")]},
            [
                error(
                    "spec.tasks[0].name",
                    f"the pod name {'j' * 60}-t-0 would have 64 characters; 63 are allowed",
                    "t",
                    "shorten the name of the job or of the task by 1",
                ),
                error(
                    "metadata.name",
                    f"the name of the hosts volume {'j' * 60}-svc would have 64 characters; 63 are allowed",
                    "j" * 60,
                    "shorten the job's name by 1",
                ),
            ],
            id="hosts volume",
        ),
        pytest.param(
            "j" * 55,
            {"plugins": {"ray": ["--head=head", "--headContainer=main", "--worker=none"]}, "tasks": [task("head")]},
            error(
                "metadata.name",
                f"the name of the head Service {'j' * 55}-head-svc would have 64 characters; 63 are allowed",
                "j" * 55,
                "shorten the job's name by 1",
            ),
            id="head Service",
        ),
    ],
)
def test_what_becomes_too_long(name: str, spec: Manifest, expected: Row | list[Row]) -> None:
    wanted = expected if isinstance(expected, list) else [expected]
    assert found(named({"name": name}, **spec)) == wanted


def test_a_claims_volume_becomes_too_long() -> None:
    name = "j" * 51
    (finding,) = found(named({"name": name}, volumes=[{"mountPath": "/data", "volumeClaimName": "data"}]))
    assert (finding.path, finding.hint) == ("metadata.name", "shorten the job's name by 1")
    assert finding.message.startswith(f"the name of a claim's volume {name}-")
    assert finding.message.endswith(" would have 64 characters; 63 are allowed")


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        pytest.param("a", {"tasks": [task("t" * 58, 100)]}, id="pod"),
        pytest.param("j" * 59, {"plugins": {"svc": [], "ssh": []}, "tasks": [task("t")]}, id="volumes of plugins"),
        pytest.param("j" * 50, {"volumes": [{"mountPath": "/d", "volumeClaimName": "d"}]}, id="claim's volume"),
    ],
)
def test_what_just_fits(name: str, spec: Manifest) -> None:
    assert found(named({"name": name}, **spec)) == []


def test_a_service_may_not_begin_with_a_digit_everywhere() -> None:
    assert found(named({"name": "4ever"}, plugins={"svc": []})) == [
        warning(
            "metadata.name",
            "older clusters refuse the Service of the job, because its name begins with a digit",
            "4ever",
        )
    ]
