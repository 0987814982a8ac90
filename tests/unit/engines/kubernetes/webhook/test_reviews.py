from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.admission.context import Context
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.reviews import Answer, MalformedReviewError, mutated, validated
from pumice.model.job import PUMICE_FIELDS
from pumice.model.keys import LAST_APPLIED
from tests.builders import a_context, a_document
from tests.unit.admission.findings import task

CONTEXT = a_context()
SCHEMA = job_schema()


def body(job: object, operation: str = "CREATE", **fields: Any) -> bytes:
    request = {"uid": "u-1", "operation": operation, "object": job, "namespace": "a", "name": "b", **fields}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answer(answered: Answer) -> dict[str, Any]:
    sent = json.loads(answered[0])
    assert (sent["apiVersion"], sent["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = sent["response"]
    assert (response["uid"], response["allowed"]) == ("u-1", answered[1])
    return response


class TestMutate:
    def test_defaults_are_returned_as_a_patch(self) -> None:
        response = answer(mutated(body(a_document()), CONTEXT, SCHEMA))
        assert response["allowed"] is True
        assert {step["op"] for step in json.loads(base64.b64decode(response["patch"]))} == {"add"}

    def test_a_job_that_fits_the_schema_is_left_to_validate(self) -> None:
        assert answer(mutated(body(a_document(plugins={"nosuch": []})), CONTEXT, SCHEMA))["allowed"] is True

    def test_a_value_that_the_schema_rejects_is_patched_where_possible(self) -> None:
        limits = {"resources": {"limits": {"cpu": 0.5}}}
        job = a_document(tasks=[task(template={"spec": {"containers": [{"name": "a", "image": "b", **limits}]}})])
        response = answer(mutated(body(job), CONTEXT, SCHEMA))
        assert "0.5" in [step["value"] for step in json.loads(base64.b64decode(response["patch"]))]

    def test_a_deletion_is_allowed(self) -> None:
        assert answer(mutated(body(None, "DELETE"), CONTEXT, SCHEMA)) == {"uid": "u-1", "allowed": True}


def test_a_job_that_the_schema_rejects_is_rejected_with_all_findings() -> None:
    job = a_document(tasks=[task(replicas=-1)], plugins={"nosuch": []})
    status = answer(mutated(body(job), CONTEXT, SCHEMA))["status"]
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.tasks[0].replicas",
        "spec.plugins.nosuch",
    ]


class TestDropped:
    """Fields that the definition of Job in the cluster drops."""

    def warnings(self, job: dict[str, Any], dropped: tuple[str, ...] = PUMICE_FIELDS) -> list[str]:
        response = answer(validated(body(job), CONTEXT, dropped))
        assert response["allowed"] is True
        found: list[str] = response.get("warnings", [])
        return found

    def test_a_dropped_field_in_the_object_gets_a_warning(self) -> None:
        (warning,) = self.warnings(a_document(suspend=False))
        assert warning.startswith("spec.suspend: the definition of Job in this cluster drops it")
        assert "pumice install --crds-only" in warning
        assert len(warning) <= 250

    def test_a_dropped_field_in_the_last_applied_annotation_gets_a_warning(self) -> None:
        job = a_document()
        job["metadata"] = {"name": "a", "annotations": {LAST_APPLIED: json.dumps(a_document(suspend=True))}}
        assert len(self.warnings(job)) == 1

    @pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", 5], ids=["empty", "cut", "deep", "null", "5"])
    def test_a_malformed_annotation_is_ignored(self, text: object) -> None:
        job = a_document()
        job["metadata"]["annotations"] = {LAST_APPLIED: text} if isinstance(text, str) else {}
        assert self.warnings(job) == []

    def test_no_warning_if_the_definition_keeps_every_field(self) -> None:
        assert self.warnings(a_document(suspend=False), ()) == []


@pytest.mark.parametrize(
    "respond", [lambda raw: mutated(raw, CONTEXT, SCHEMA), lambda raw: validated(raw, CONTEXT, ())]
)
class TestHostile:
    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(b"", id="empty"),
            pytest.param(b"{", id="truncated"),
            pytest.param(b"\xff\xfe", id="not UTF-8"),
            pytest.param(b"[]", id="a list"),
            pytest.param(b"[" * 1_000_000, id="deeply nested"),
            pytest.param(b'{"apiVersion": "v1", "kind": "Pod"}', id="another kind"),
            pytest.param(
                b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}', id="another version"
            ),
            pytest.param(b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', id="no request"),
            pytest.param(
                b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 1}}', id="no uid"
            ),
        ],
    )
    def test_a_malformed_review_is_an_error(self, respond: Any, raw: bytes) -> None:
        with pytest.raises(MalformedReviewError, match="not an AdmissionReview"):
            respond(raw)

    @pytest.mark.parametrize(
        "job",
        [
            pytest.param(None, id="null"),
            pytest.param([], id="a list"),
            pytest.param({"spec": {"tasks": [None, 1, "a"]}}, id="malformed tasks"),
            pytest.param({"metadata": "a", "spec": "b"}, id="strings for objects"),
            pytest.param({"metadata": {"annotations": {"a": "x" * 1_000_000}}, "spec": {}}, id="a long annotation"),
            pytest.param({"spec": {"plugins": {"\x00": ["\ud800"]}}}, id="invalid characters"),
        ],
    )
    def test_every_malformed_job_gets_an_answer(self, respond: Any, job: object) -> None:
        try:
            answer(respond(body(job)))
        except MalformedReviewError as error:
            assert "surrogate" in str(error) or "utf-8" in str(error).lower()  # noqa: PT017 - only the last case raises

    def test_an_internal_error_is_reported_as_status_500(self, respond: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr("pumice.admission.review.mutate", broken)
        monkeypatch.setattr("pumice.admission.review.validate", broken)
        response = answer(respond(body(a_document())))
        assert response["allowed"] is False
        assert response["status"]["code"] == 500
        assert "see the log of the webhook" in response["status"]["message"]


def test_queue_rules_depend_on_the_context() -> None:
    context: Context = replace(CONTEXT, queues={}, queue_rules=True)
    assert answer(validated(body(a_document()), context, ()))["allowed"] is False
    assert answer(validated(body(a_document()), replace(context, queue_rules=False), ()))["allowed"] is True
