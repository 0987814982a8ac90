# ruff: noqa: ARG002 - hooks are given what any plugin may want; this one wants nothing
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from pumice.admission.plugins import TASKS_MADE
from pumice.model.findings import SPEC, Finding
from pumice.model.job import Job, Manifest
from pumice.model.objects import OwnedObject
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from tests.builders import a_context, a_document, a_template
from tests.unit.admission.findings import error, found, task, warning

KNOWN = "there are env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank (pumice plugins)"
OWN = "a plugin of your own needs an entry point in the group pumice.plugins"
TOO_LARGE_HINT = "use fewer pods, or shorter names for the job and its tasks"


@pytest.mark.parametrize(
    ("plugins", "hint"),
    [
        pytest.param({"scv": []}, f"did you mean svc? {KNOWN}", id="mistyped"),
        pytest.param({"nonsense": []}, f"{KNOWN}; {OWN}", id="unknown"),
    ],
)
def test_unknown_plugins(plugins: Manifest, hint: str) -> None:
    name = next(iter(plugins))
    assert found(a_document(plugins=plugins)) == [error(f"spec.plugins.{name}", "unknown plugin", hint=hint)]


def test_bad_arguments_are_reported_without_consequences() -> None:
    document = a_document(plugins={"pytorch": ["--master=worker", "--port=0"]})
    assert [(finding.path, finding.message) for finding in found(document)] == [
        ("spec.plugins.pytorch[1]", "must be between 1 and 65535")
    ]


def test_plugins_say_what_they_miss() -> None:
    assert found(a_document(plugins={"mpi": ["--worker=worker"]})) == [
        error(
            "spec.plugins.mpi",
            "no task is named 'master', so no pod would get the list of workers",
            hint="name the task that runs mpiexec with --master=<worker>",
        )
    ]


def test_an_owned_object_above_the_limit() -> None:
    (finding,) = found(a_document(plugins={"svc": ["--inject-hosts-env=false"]}, tasks=[task("w" * 40, 20_000)]))
    fits = int(finding.message.split(": ")[1].split()[0])
    assert finding.path == "spec.tasks"
    assert finding.hint == TOO_LARGE_HINT
    assert finding.message == (f"ConfigMap train-svc would be larger than 1 MiB: {fits} pods fit, the job has 20000")
    assert found(a_document(plugins={"svc": ["--inject-hosts-env=false"]}, tasks=[task("w" * 40, fits)])) == []
    assert found(a_document(plugins={"svc": ["--inject-hosts-env=false"]}, tasks=[task("w" * 40, fits + 1)])) != []


@dataclass(frozen=True, slots=True)
class Careless(Base):
    """A third party's plugin that fails or spoils the pod, as it is told to."""

    name: ClassVar[str] = "careless"

    how: str = ""

    def check(self, job: Job) -> Iterable[Finding]:
        if self.how == "check":
            raise RuntimeError("boom")
        return [Finding(SPEC, "says the plugin")] if self.how == "finding" else []

    def objects(self, job: Job) -> Iterable[OwnedObject]:
        if self.how == "objects":
            raise RuntimeError("boom")
        return []

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if self.how == "shape":
            raise RuntimeError("boom")
        if self.how == "spoil":
            return pod.with_spec(restartPolicy="Sometimes")
        return pod


def option_of(how: str) -> Manifest:
    return {"careless": [f"--how={how}"]}


def careless(how: str, **spec: Any) -> list[tuple[str, str]]:
    context = a_context(Registry({"careless": Careless}))
    return [(finding.path, finding.message) for finding in found(a_document(plugins=option_of(how), **spec), context)]


@pytest.mark.parametrize("how", ["check", "objects", "shape"])
def test_a_failing_plugin_is_reported_by_name(how: str) -> None:
    assert careless(how) == [("spec.plugins.careless", "plugin careless failed: RuntimeError: boom")]


def test_a_failing_plugin_is_reported_once_for_many_tasks() -> None:
    assert len(careless("shape", tasks=[task("a"), task("b")])) == 1


def test_a_plugins_own_findings() -> None:
    assert careless("finding") == [("spec", "says the plugin")]


def test_a_plugin_that_spoils_a_pod() -> None:
    message = "as the plugins make it: must be Always, OnFailure or Never"
    assert careless("spoil") == [("spec.tasks[0].template.spec.restartPolicy", message)]


def test_a_valid_pod() -> None:
    assert careless("") == []


def test_pods_of_many_tasks_are_not_all_made() -> None:
    tasks = [task(f"t{number}", 0) for number in range(TASKS_MADE + 5)]
    assert len(careless("spoil", tasks=tasks)) == TASKS_MADE


def test_warnings_about_the_template_are_not_repeated() -> None:
    """The rules run once more on the pod that the plugins made; what they said of the template is enough."""
    pod = a_template(terminationGracePeriodSeconds=-5, restartPolicy="Never")
    assert found(a_document(plugins={"svc": []}, tasks=[task(template=pod)])) == [
        warning(
            "spec.tasks[0].template.spec.terminationGracePeriodSeconds",
            "should be 0 or more; Kubernetes uses 1 instead",
            -5,
        )
    ]
