from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from pumice.admission.context import Context
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.reviews import LAST_APPLIED, NoReviewError, mutated, validated
from pumice.model.job import PUMICE_FIELDS
from tests.builders import a_context, a_document
from tests.unit.admission.findings import task

CONTEXT = a_context()
SCHEMA = job_schema()


def body(job: object, operation: str = "CREATE", **fields: Any) -> bytes:
    request = {"uid": "u-1", "operation": operation, "object": job, "namespace": "a", "name": "b", **fields}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answer(raw: bytes) -> dict[str, Any]:
    told = json.loads(raw)
    assert (told["apiVersion"], told["kind"], told["response"]["uid"]) == (
        "admission.k8s.io/v1",
        "AdmissionReview",
        "u-1",
    )
    response: dict[str, Any] = told["response"]
    return response


class TestMutate:
    def test_defaults_come_as_a_patch(self) -> None:
        response = answer(mutated(body(a_document()), CONTEXT, SCHEMA))
        assert response["allowed"] is True
        assert {step["op"] for step in json.loads(base64.b64decode(response["patch"]))} == {"add"}

    def test_what_only_we_would_refuse_is_left_to_validate(self) -> None:
        assert answer(mutated(body(a_document(plugins={"nosuch": []})), CONTEXT, SCHEMA))["allowed"] is True

    def test_what_the_schema_refuses_and_we_can_mend_is_mended(self) -> None:
        limits = {"resources": {"limits": {"cpu": 0.5}}}
        job = a_document(tasks=[task(template={"spec": {"containers": [{"name": "a", "image": "b", **limits}]}})])
        response = answer(mutated(body(job), CONTEXT, SCHEMA))
        assert "0.5" in [step["value"] for step in json.loads(base64.b64decode(response["patch"]))]

    def test_a_deletion_is_nobodys_business(self) -> None:
        assert answer(mutated(body(None, "DELETE"), CONTEXT, SCHEMA)) == {"uid": "u-1", "allowed": True}


def test_what_the_schema_would_refuse_is_refused_with_everything_else() -> None:
    job = a_document(tasks=[task(replicas=-1)], plugins={"nosuch": []})
    status = answer(mutated(body(job), CONTEXT, SCHEMA))["status"]
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.tasks[0].replicas",
        "spec.plugins.nosuch",
    ]


class TestDropped:
    """Fields that the cluster's definition does not keep."""

    def warnings(self, job: dict[str, Any], dropped: tuple[str, ...] = PUMICE_FIELDS) -> list[str]:
        response = answer(validated(body(job), CONTEXT, dropped))
        assert response["allowed"] is True
        found: list[str] = response.get("warnings", [])
        return found

    def test_a_field_that_is_still_there(self) -> None:
        (warning,) = self.warnings(a_document(suspend=False))
        assert warning.startswith("spec.suspend: this cluster's definition of a Job drops it")
        assert "pumice install --crds-only" in warning
        assert len(warning) <= 250

    def test_a_field_that_kubectl_apply_remembers(self) -> None:
        job = a_document()
        job["metadata"] = {"name": "a", "annotations": {LAST_APPLIED: json.dumps(a_document(suspend=True))}}
        assert len(self.warnings(job)) == 1

    @pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", 5], ids=["empty", "cut", "deep", "null", "5"])
    def test_an_annotation_that_is_no_job(self, text: object) -> None:
        job = a_document()
        job["metadata"]["annotations"] = {LAST_APPLIED: text} if isinstance(text, str) else {}
        assert self.warnings(job) == []

    def test_none_where_all_are_kept(self) -> None:
        assert self.warnings(a_document(suspend=False), ()) == []


@pytest.mark.parametrize("judge", [lambda raw: mutated(raw, CONTEXT, SCHEMA), lambda raw: validated(raw, CONTEXT, ())])
class TestHostile:
    @pytest.mark.parametrize(
        "raw",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"{", id="half of something"),
            pytest.param(b"\xff\xfe", id="no text"),
            pytest.param(b"[]", id="a list"),
            pytest.param(b"[" * 1_000_000, id="very deep"),
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
    def test_what_is_no_review_is_told(self, judge: Any, raw: bytes) -> None:
        with pytest.raises(NoReviewError, match="this is no AdmissionReview"):
            judge(raw)

    @pytest.mark.parametrize(
        "job",
        [
            pytest.param(None, id="no job"),
            pytest.param([], id="a list"),
            pytest.param({"spec": {"tasks": [None, 1, "a"]}}, id="tasks of nonsense"),
            pytest.param({"metadata": "a", "spec": "b"}, id="text for objects"),
            pytest.param({"metadata": {"annotations": {"a": "x" * 1_000_000}}, "spec": {}}, id="a long annotation"),
            pytest.param({"spec": {"plugins": {"\x00": ["\ud800"]}}}, id="characters that are none"),
        ],
    )
    def test_any_job_gets_an_answer(self, judge: Any, job: object) -> None:
        try:
            answer(judge(body(job)))
        except NoReviewError as error:
            assert "surrogate" in str(error) or "utf-8" in str(error).lower()  # noqa: PT017 - only of the last one

    def test_our_own_defect_is_a_clear_refusal(self, judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr("pumice.admission.review.mutate", broken)
        monkeypatch.setattr("pumice.admission.review.validate", broken)
        response = answer(judge(body(a_document())))
        assert response["allowed"] is False
        assert response["status"]["code"] == 500
        assert "its log says more" in response["status"]["message"]


def test_queue_rules_are_those_of_the_context() -> None:
    context: Context = replace(CONTEXT, queues={}, queue_rules=True)
    assert answer(validated(body(a_document()), context, ()))["allowed"] is False
    assert answer(validated(body(a_document()), replace(context, queue_rules=False), ()))["allowed"] is True
