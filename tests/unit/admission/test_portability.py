from __future__ import annotations

from dataclasses import replace

from tests.builders import a_context, a_document
from tests.unit.admission.findings import found, task, warning

OWN = a_document(
    activeDeadlineSeconds=60,
    suspend=False,
    policies=[{"exitCode": 1, "action": "AbortJob"}, {"exitCodes": [3], "action": "AbortJob"}],
    tasks=[
        task("a", maxRestarts=0, policies=[{"exitCodes": [4], "action": "AbortJob"}]),
        task("b", dependsOn={"name": ["a"], "condition": "Completed"}),
        task("c", dependsOn={"name": ["a"]}),
    ],
)
PLACES = (
    "spec.activeDeadlineSeconds",
    "spec.suspend",
    "spec.policies[1].exitCodes",
    "spec.tasks[0].policies[0].exitCodes",
    "spec.tasks[0].maxRestarts",
    "spec.tasks[1].dependsOn.condition",
)


def test_fields_of_our_own_are_accepted() -> None:
    assert found(OWN) == []


def test_fields_of_our_own_are_told_to_those_who_must_stay_portable() -> None:
    message = "only Pumice knows this field; Volcano drops it in silence"
    assert found(OWN, replace(a_context(), portable=True)) == [warning(place, message) for place in PLACES]


def test_nothing_is_told_about_volcanos_own_fields() -> None:
    assert found(a_document(minSuccess=1, maxRetry=2), replace(a_context(), portable=True)) == []
