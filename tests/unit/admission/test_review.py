from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.admission.context import Context, Queue
from pumice.admission.review import mutate, validate
from pumice.model.job import Manifest
from tests.builders import a_context, a_document
from tests.unit.admission.findings import POD, task
from tests.unit.admission.test_defaults import applied

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
FILLED = {
    "queue": "default",
    "schedulerName": "volcano",
    "maxRetry": 3,
    "minAvailable": 1,
    "tasks": [task(minAvailable=1, maxRetry=3)],
}


def review(operation: str, document: object = None, old: object = None, **fields: Any) -> Manifest:
    request = {"uid": UID, "operation": operation, "object": document, "oldObject": old, **fields}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def response(reviewed: Manifest) -> Manifest:
    assert (reviewed["apiVersion"], reviewed["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert set(reviewed) == {"apiVersion", "kind", "response"}
    json.dumps(reviewed)  # an answer must be JSON
    answer: Manifest = reviewed["response"]
    if "status" in answer:
        # Of its own test below; the same as the message, in pieces.
        assert answer["status"].pop("details")["causes"]
    return answer


ALLOWED = {"uid": UID, "allowed": True}


def denied(message: str) -> Manifest:
    status = {"status": "Failure", "reason": "Invalid", "code": 422, "message": message}
    return {"uid": UID, "allowed": False, "status": status}


class TestMutate:
    def test_a_new_job_gets_its_defaults(self) -> None:
        document = a_document()
        answer = response(mutate(review("CREATE", document), a_context()))
        assert set(answer) == {"uid", "allowed", "patchType", "patch"}
        assert (answer["uid"], answer["allowed"], answer["patchType"]) == (UID, True, "JSONPatch")
        steps = json.loads(base64.b64decode(answer["patch"], validate=True))
        assert applied(document, steps) == {**document, "spec": FILLED}

    def test_a_job_that_has_them_is_left_alone(self) -> None:
        assert response(mutate(review("CREATE", a_document(**FILLED)), a_context())) == ALLOWED

    def test_a_dry_run_is_answered_alike(self) -> None:
        asked, dry = review("CREATE", a_document()), review("CREATE", a_document(), dryRun=True)
        assert mutate(asked, a_context()) == mutate(dry, a_context())

    @pytest.mark.parametrize(
        ("operation", "document"),
        [
            *(pytest.param(operation, a_document(), id=operation) for operation in ("UPDATE", "DELETE", "CONNECT")),
            pytest.param("CREATE", None, id="no object"),
            pytest.param("CREATE", "text", id="no mapping"),
            pytest.param("CREATE", {"kind": "Job"}, id="no spec"),
            pytest.param("CREATE", {"kind": "Job", "spec": []}, id="spec of another type"),
            pytest.param("CREATE", a_document(tasks=["x"]), id="what cannot be read is for validate to refuse"),
            pytest.param("CREATE", a_document(plugins={"template": {}}), id="plugin arguments that cannot be read"),
        ],
    )
    def test_everything_else_passes_unchanged(self, operation: str, document: object) -> None:
        assert response(mutate(review(operation, document), a_context())) == ALLOWED

    @pytest.mark.parametrize("asked", [{}, {"request": None}, {"request": []}], ids=str)
    def test_a_review_without_a_request(self, asked: Manifest) -> None:
        assert response(mutate(asked, a_context())) == {"uid": "", "allowed": True}


class TestCreate:
    def test_a_valid_job_is_allowed(self) -> None:
        assert response(validate(review("CREATE", a_document()), a_context())) == ALLOWED

    def test_all_errors_are_in_the_message(self) -> None:
        document = a_document(
            minSuccess="3", policies=[{"event": "PodFaild", "action": "AbortJob"}], tasks=[task(replicas=-1)]
        )
        events = "must be one of *, PodFailed, PodEvicted, PodPending, Unknown, TaskCompleted, TaskFailed, JobUpdated"
        assert response(validate(review("CREATE", document), a_context())) == denied(
            "spec.minSuccess: 3: must be a whole number, found a string (remove the quotes); "
            "spec.tasks[0].replicas: -1: must be 0 or more; "
            f"spec.policies[0].event: PodFaild: {events} (did you mean PodFailed?)"
        )

    def test_warnings_are_given_with_a_job_that_is_allowed(self) -> None:
        document = a_document(policies=[{"event": "PodPending", "action": "AbortJob"}])
        warnings = ["spec.policies[0]: never acts: PodPending needs a timeout (add timeout: 5m)"]
        assert response(validate(review("CREATE", document), a_context())) == {**ALLOWED, "warnings": warnings}

    def test_warnings_are_given_with_a_job_that_is_denied(self) -> None:
        document = a_document(policies=[{"event": "PodPending", "action": "AbortJob"}], maxRetry=-1)
        answer = response(validate(review("CREATE", document), a_context()))
        assert answer["status"]["message"] == "spec.maxRetry: -1: must be 0 or more"
        assert len(answer["warnings"]) == 1

    def test_long_warnings_are_shortened(self) -> None:
        document = {**a_document(), "metadata": {"generateName": "n" * 250}}
        answer = response(validate(review("CREATE", document), a_context()))
        (warning,) = answer["warnings"]
        assert len(warning) == 250
        assert warning.startswith("metadata.generateName: the API server generates the name; shown here as nnn")
        assert warning.endswith("nnn...")

    def test_what_a_job_repeats_is_no_command_to_a_terminal(self) -> None:
        answer = response(validate(review("CREATE", a_document(queue="\x1b[1m", **{"a\nb": 1})), a_context()))
        assert answer["status"]["message"].startswith("spec[a\\nb]: unknown field; spec.queue: \\x1b[1m: must be")

    def test_truth_values_are_written_as_json_writes_them(self) -> None:
        answer = response(validate(review("CREATE", a_document(queue=True)), a_context()))
        assert answer["status"]["message"].startswith("spec.queue: true: must be a string, found a boolean")

    def test_queues_are_asked_where_they_are_known(self) -> None:
        context = replace(a_context(), queues={"default": Queue("Closed")})
        answer = response(validate(review("CREATE", a_document()), context))
        message = "spec.queue: default: the queue is Closed; only an open one takes jobs"
        assert answer["status"]["message"] == message

    def test_a_dry_run_is_answered_alike(self) -> None:
        asked, dry = review("CREATE", a_document(maxRetry=-1)), review("CREATE", a_document(maxRetry=-1), dryRun=True)
        assert validate(asked, a_context()) == validate(dry, a_context())


class TestDetails:
    """What clients such as kubectl show as a list."""

    def details(self, document: Manifest, **fields: Any) -> Manifest:
        asked = review("CREATE", document, **fields)
        found: Manifest = validate(asked, a_context())["response"]["status"]["details"]
        return found

    def test_each_error_is_a_cause(self) -> None:
        document = a_document(maxRetry=-1, policies=[{"event": "PodFaild", "action": "AbortJob"}])
        events = "must be one of *, PodFailed, PodEvicted, PodPending, Unknown, TaskCompleted, TaskFailed, JobUpdated"
        assert self.details(document) == {
            "group": "batch.volcano.sh",
            "kind": "Job",
            "name": "train",
            "causes": [
                {"reason": "FieldValueInvalid", "field": "spec.maxRetry", "message": "-1: must be 0 or more"},
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.policies[0].event",
                    "message": f"PodFaild: {events} (did you mean PodFailed?)",
                },
            ],
        }

    @pytest.mark.parametrize(
        ("metadata", "fields", "name"),
        [
            pytest.param({"name": "a"}, {"name": "b"}, "b", id="the request's"),
            pytest.param({"generateName": "a-"}, {}, "a-", id="the beginning of one to be made"),
            pytest.param({}, {}, "", id="none"),
            pytest.param("text", {}, "", id="metadata of another type"),
        ],
    )
    def test_the_name(self, metadata: object, fields: dict[str, str], name: str) -> None:
        document = {**a_document(maxRetry=-1), "metadata": metadata}
        assert self.details(document, **fields)["name"] == name

    def test_the_answer_for_many_errors_is_short(self) -> None:
        long = "x" * 4_000
        document = a_document(tasks=[task(name=long, replicas=-1) for _ in range(100)])
        status = validate(review("CREATE", document), a_context())["response"]["status"]
        assert len(json.dumps(status)) < 2 * 50 * 1100
        assert len(status["details"]["causes"]) == 50
        assert status["message"].endswith(" more")


class TestUpdate:
    @pytest.mark.parametrize(
        "document",
        [
            pytest.param(a_document(**FILLED), id="unchanged"),
            pytest.param({**a_document(**FILLED), "metadata": {"name": "train", "finalizers": []}}, id="metadata"),
            pytest.param(a_document(**{**FILLED, "suspend": True}), id="suspend"),
            pytest.param(a_document(**{**FILLED, "tasks": [task(replicas=5, maxRetry=3)]}), id="scale"),
            pytest.param(a_document(), id="replaced by the file, without defaults"),
        ],
    )
    def test_allowed(self, document: Manifest) -> None:
        assert response(validate(review("UPDATE", document, a_document(**FILLED)), a_context())) == ALLOWED

    def test_denied(self) -> None:
        new = a_document(**{**FILLED, "queue": "other", "minAvailable": 9})
        assert response(validate(review("UPDATE", new, a_document(**FILLED)), a_context())) == denied(
            "spec.minAvailable: 9: must be at most 1, all pods of the job, or it could never start "
            "(raise the replicas of a task, or lower this); spec.queue: cannot be changed once the job exists "
            "(only minAvailable, priorityClassName, suspend, tasks[*].replicas, tasks[*].minAvailable can)"
        )

    @pytest.mark.parametrize(
        ("old", "status"),
        [
            pytest.param({"replicas": 3, "minAvailable": 3}, None, id="filled in by the webhook"),
            pytest.param({"replicas": 3}, None, id="created without the webhook"),
            pytest.param({"replicas": 5}, {"pumice/min-available/worker": "3"}, id="scaled since, by the record"),
            pytest.param({"replicas": 3}, {"pumice/min-available/worker": 2}, id="a record that is none"),
        ],
    )
    @pytest.mark.parametrize("written", [{}, {"minAvailable": 3}], ids=["replaced by the file", "patched"])
    def test_a_default_does_not_change_with_the_replicas(
        self, old: Manifest, status: Manifest | None, written: Manifest
    ) -> None:
        least = {key: old[key] for key in ("minAvailable",) if key in old}
        stored = a_document(tasks=[task(**old)], **least)
        stored |= {"status": {"controlledResources": status}} if status is not None else {}
        answer = response(
            validate(review("UPDATE", a_document(tasks=[task(replicas=2, **written)]), stored), a_context())
        )
        assert answer["allowed"] is False
        message = answer["status"]["message"]
        assert message.startswith(
            "spec.tasks[0].minAvailable: 3: must be at most 2, the replicas of the task (lower both"
        )
        assert '{"op":"add","path":"/spec/tasks/0/minAvailable","value":2}' in message
        up = a_document(tasks=[task(replicas=7, **written)])
        assert response(validate(review("UPDATE", up, stored), a_context())) == ALLOWED

    def test_a_plugin_that_others_need_is_no_change(self) -> None:
        old = a_document(**{**FILLED, "plugins": {"tensorflow": [], "svc": []}})
        new = a_document(plugins={"tensorflow": []})
        assert response(validate(review("UPDATE", new, old), a_context())) == ALLOWED

    def test_what_was_let_in_before_may_stay(self) -> None:
        old = a_document(**FILLED, mistyped=1)
        new = {**old, "metadata": {"name": "train", "labels": {"a": "b"}}}
        assert response(validate(review("UPDATE", new, old), a_context())) == ALLOWED

    def test_new_errors_are_reported(self) -> None:
        new = a_document(**FILLED, mistyped=1)
        answer = response(validate(review("UPDATE", new, a_document(**FILLED)), a_context()))
        assert answer == denied("spec.mistyped: unknown field")

    @pytest.mark.parametrize("old", [None, "text"])
    def test_without_an_old_job_there_is_nothing_to_compare(self, old: object) -> None:
        answer = response(validate(review("UPDATE", a_document(), old), a_context()))
        assert answer == denied("the request contains no old object")


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", ""])
def test_other_operations_are_allowed(operation: str) -> None:
    bad: Manifest = {"spec": {"tasks": []}}
    assert response(validate(review(operation, bad, bad), a_context())) == ALLOWED


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("document", [None, [], "text"], ids=str)
def test_a_request_without_a_job(operation: str, document: object) -> None:
    answer = response(validate(review(operation, document, a_document()), a_context()))
    assert answer == denied("the request contains no Job")


@pytest.mark.parametrize("asked", [{}, {"request": None}, {"request": []}], ids=str)
def test_a_review_without_a_request(asked: Manifest) -> None:
    context: Context = a_context()
    assert response(validate(asked, context)) == {"uid": "", "allowed": True}


def test_the_pod_of_the_builders_is_valid() -> None:
    """Everything above relies on it."""
    assert response(validate(review("CREATE", a_document(tasks=[{"template": POD}])), a_context())) == ALLOWED
