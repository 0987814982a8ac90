"""All findings at once, each once: what could not be read is not concluded from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.admission.admit import admit, admit_stored, restore
from pumice.model.job import Job, Manifest
from tests.builders import a_context, a_document
from tests.unit.admission.findings import Row, error, found, task

ON_FAILURE = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"tasks": []}, [error("spec.tasks", "a job needs at least one task")], id="no tasks"),
        pytest.param({"tasks": None}, [error("spec.tasks", "a job needs at least one task")], id="tasks are null"),
        pytest.param(
            {"tasks": "x"},
            [error("spec.tasks", "must be a list, found a string", "x", "write it as a list item: - x")],
            id="tasks as text",
        ),
        pytest.param(
            {"tasks": ["x", task()]},
            [error("spec.tasks[0]", "must be a mapping, found a string", "x")],
            id="a task as text",
        ),
        pytest.param({"tasks": [None]}, [error("spec.tasks[0]", "must be a mapping, found null")], id="a task is null"),
        pytest.param(
            {"tasks": [{**task(), "template": "x"}]},
            [error("spec.tasks[0].template", "must be a mapping, found a string", "x")],
            id="a template as text",
        ),
        pytest.param(
            {"policies": ["x"]},
            [error("spec.policies[0]", "must be a mapping, found a string", "x")],
            id="a policy as text",
        ),
        pytest.param(
            {"policies": [{**ON_FAILURE, "event": [1]}]},
            [error("spec.policies[0].event", "must be a string, found a list")],
            id="an event that cannot be read is not called missing",
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a", "volumeClaim": "x"}]},
            [error("spec.volumes[0].volumeClaim", "must be a mapping, found a string", "x")],
            id="a claim that cannot be read is not called missing",
        ),
        pytest.param(
            {"tasks": None, "task": [task()]},
            [error("spec.task", "unknown field", hint="did you mean tasks?")],
            id="tasks under a wrong name are not called missing",
        ),
        pytest.param(
            {"tasks": [{"name": "a", "templat": {}}]},
            [error("spec.tasks[0].templat", "unknown field", hint="did you mean template?")],
            id="nor is what stands in a template of a wrong name",
        ),
        pytest.param(
            {"tasks": [{**task(), "template": {"containers": [{"name": "a", "image": "b"}], "spec": {}}}]},
            [
                error(
                    "spec.tasks[0].template.containers",
                    "unknown field",
                    hint="it belongs to spec.tasks[0].template.spec",
                )
            ],
            id="nor containers that are not indented enough",
        ),
        pytest.param(
            {"minAvailable": 9, "tasks": [{"name": "a", "replica": 9, "template": task()["template"]}]},
            [error("spec.tasks[0].replica", "unknown field", hint="did you mean replicas?")],
            id="no sum of what has a wrong name",
        ),
        pytest.param(
            {"minAvailable": 9, "tasks": [{**task(), "replicas": "two"}]},
            [error("spec.tasks[0].replicas", "must be a whole number, found a string", "two")],
            id="no sum of what cannot be read",
        ),
        pytest.param(
            {"tasks": [{**task(), "name": ["x"]}, task("b", dependsOn={"name": ["x"]})]},
            [error("spec.tasks[0].name", "must be a string, found a list")],
            id="no names of what cannot be read",
        ),
        pytest.param(
            {"plugins": {"svc": {}, "pytorch": ["--master=none"]}},
            [error("spec.plugins.svc", "must be a list, found a mapping")],
            id="plugins are not asked about half a job",
        ),
    ],
)
def test_one_mistake_is_reported_once(spec: dict[str, Any], expected: list[Row]) -> None:
    assert found(a_document(**spec)) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({}, ["spec.tasks", "metadata.name"], id="nothing"),
        pytest.param({"spec": "x", "metadata": "y"}, ["spec", "metadata"], id="parts as text"),
        pytest.param({"spec": ["x"], "metadata": {"name": "a"}}, ["spec"], id="spec as a list"),
    ],
)
def test_documents_that_lack_all(document: Manifest, expected: list[str]) -> None:
    assert [finding.path for finding in found(document)] == expected


@pytest.mark.parametrize(
    ("unreadable", "other", "expected"),
    [
        pytest.param(
            {"tasks": [{**task("a"), "replicas": "two"}, task("b", dependsOn={"name": ["c"]}), task("b")]},
            {},
            ["spec.tasks[0].replicas", "spec.tasks[2].name", "spec.tasks[1].dependsOn.name[0]"],
            id="names are compared though a number is unreadable",
        ),
        pytest.param(
            {"tasks": [{**task("a", 2, minAvailable=3), "name": ["x"]}]},
            {"minSuccess": 9},
            ["spec.tasks[0].name", "spec.tasks[0].minAvailable", "spec.minSuccess"],
            id="numbers are compared though a name is unreadable",
        ),
        pytest.param(
            {"policies": [{**ON_FAILURE, "timeout": {}}]},
            {"minSuccess": 9, "tasks": [task("a"), task("a")]},
            ["spec.policies[0].timeout", "spec.tasks[1].name", "spec.minSuccess"],
            id="both are compared though something else is unreadable",
        ),
        pytest.param(
            {"mistyped": 1}, {"plugins": {"pytorch": []}}, ["spec.mistyped", "spec.plugins.pytorch"], id="unknown field"
        ),
    ],
)
def test_what_can_be_compared_is(unreadable: Manifest, other: Manifest, expected: list[str]) -> None:
    assert [finding.path for finding in found(a_document(**unreadable, **other))] == expected


def test_plugins_are_not_asked_about_a_template_that_has_errors() -> None:
    """Ray would miss its container in the first task, but the mistake is another; the second task has its own."""
    broken = {"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}}
    tasks = [task("head", template=broken), task("worker")]
    findings = found(a_document(plugins={"ray": []}, tasks=tasks))
    assert [finding.path for finding in findings] == [
        "spec.tasks[0].template.spec.containers[0].image",
        "spec.tasks[1].template.spec.containers",
    ]


def test_values_with_clear_intent_are_converted() -> None:
    document = a_document(minAvailable="9", policies=[{"events": "PodFaild", "action": "AbortJob"}])
    assert [(finding.path, finding.value) for finding in found(document)] == [
        ("spec.minAvailable", "9"),
        ("spec.policies[0].events", "PodFaild"),
        ("spec.policies[0].events[0]", "PodFaild"),
        ("spec.minAvailable", 9),
    ]


def test_the_same_finding_of_two_rules_is_reported_once() -> None:
    """Both the shape of a template and the rules for pods want an image."""
    pod = {"spec": {"containers": [{"name": "a"}], "restartPolicy": "Never"}}
    paths = [finding.path for finding in found(a_document(tasks=[task(template=pod)]))]
    assert paths == ["spec.tasks[0].template.spec.containers[0].image"]


def test_a_valid_job_is_returned_as_written_and_with_defaults() -> None:
    admitted = admit(a_document(plugins={"mpi": ["--master=worker", "--worker=worker"]}), a_context())
    assert admitted.is_good
    assert (admitted.written.spec.queue, admitted.job.spec.queue) == ("", "default")
    assert list(admitted.written.spec.plugins) == ["mpi"]
    assert [plugin.name for plugin in admitted.plugins] == ["svc", "ssh", "mpi"]


def test_an_admitted_job_is_restored_without_its_rules() -> None:
    admitted = admit(a_document(plugins={"mpi": ["--master=worker", "--worker=worker"]}), a_context())
    stored = {**msgspec.to_builtins(admitted.written), "status": {"state": {"phase": "Running"}}}
    assert restore(stored, a_context()) == msgspec.structs.replace(admitted, findings=())


def test_a_name_that_is_yet_to_be_made_has_a_stand_in() -> None:
    admitted = admit({**a_document(), "metadata": {"generateName": "a-"}}, a_context())
    assert (admitted.job.name, admitted.is_good) == ("a-xxxxx", True)


def test_errors_make_a_job_bad_and_warnings_do_not() -> None:
    assert not admit(a_document(maxRetry=-1), a_context()).is_good
    pending = [{"event": "PodPending", "action": "AbortJob"}]
    assert admit(a_document(policies=pending), a_context()).is_good


def test_the_document_is_not_changed() -> None:
    document = a_document(plugins={"mpi": None}, minAvailable="1", policies={"event": "x"})
    before = repr(document)
    admit(document, a_context())
    assert repr(document) == before


def test_a_stored_job_keeps_the_name_of_a_claim_that_a_controller_created() -> None:
    volume = {"mountPath": "/data", "volumeClaimName": "train-volume-abc", "volumeClaim": {"accessModes": ["RWO"]}}
    stored = msgspec.convert(a_document(volumes=[volume, {"mountPath": "/more", "volumeClaimName": "shared"}]), Job)
    admitted = admit_stored(stored, a_context())
    assert admitted.written is stored
    assert admitted.job.spec.volumes == stored.spec.volumes
    assert admitted.job.spec.min_available == 1
    assert "volumeClaimName" not in str(admitted.findings)
