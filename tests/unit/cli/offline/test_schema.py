from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pumice.model.job import Manifest
from tests.builders import a_container, a_document, a_template
from tests.unit.cli.running import EXAMPLES, Terminal


@pytest.fixture(scope="module")
def checker() -> jsonschema.Draft7Validator:
    from pumice.model.json_schema import job_schema
    from pumice.runtime.kubernetes_types import kubernetes_types

    schema = job_schema(kubernetes_types().types)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_the_output_is_a_schema(terminal: Terminal, checker: jsonschema.Draft7Validator) -> None:
    code, out, err = terminal.run("schema")
    assert (code, err) == (0, "")
    assert json.loads(out) == checker.schema
    assert json.loads(out)["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert out.endswith("}\n")


def jobs(file: Path) -> list[Any]:
    documents = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return [document for document in documents if document and document["kind"] == "Job"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_examples_are_valid(file: Path, checker: jsonschema.Draft7Validator) -> None:
    assert jobs(file)
    for job in jobs(file):
        checker.validate(job)


def task(**fields: Any) -> Manifest:
    return {"name": "a", "replicas": 1, "template": a_template(), **fields}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param({**a_document(), "kind": "Jb"}, "kind", id="kind"),
        pytest.param({**a_document(), "apiVersion": "batch/v1"}, "apiVersion", id="apiVersion"),
        pytest.param({**a_document(), "sepc": {}}, "", id="unknown field at the top"),
        pytest.param({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {}}, "", id="no spec"),
        pytest.param(a_document(quue="x"), "spec", id="unknown field of the spec"),
        pytest.param(a_document(minAvailable=-1), "spec.minAvailable", id="negative number"),
        pytest.param(a_document(minAvailable="1"), "spec.minAvailable", id="text for a number"),
        pytest.param(a_document(minSuccess=0), "spec.minSuccess", id="minSuccess"),
        pytest.param(a_document(tasks=[]), "spec.tasks", id="no tasks"),
        pytest.param(a_document(tasks={"name": "a"}), "spec.tasks", id="a mapping for a list"),
        pytest.param(a_document(tasks=[task(replicas=-1)]), "spec.tasks.0.replicas", id="replicas"),
        pytest.param(a_document(tasks=[task(replica=1)]), "spec.tasks.0", id="unknown field of a task"),
        pytest.param(
            a_document(policies=[{"event": "PodFaild", "action": "AbortJob"}]), "spec.policies.0.event", id="event"
        ),
        pytest.param(
            a_document(policies=[{"events": ["PodFaild"], "action": "AbortJob"}]),
            "spec.policies.0.events.0",
            id="event in a list",
        ),
        pytest.param(
            a_document(policies=[{"event": "PodFailed", "action": "Abort"}]), "spec.policies.0.action", id="action"
        ),
        pytest.param(a_document(plugins=["svc"]), "spec.plugins", id="a list of plugins"),
        pytest.param(a_document(plugins={"svc": "--x"}), "spec.plugins.svc", id="text for arguments"),
        pytest.param(a_document(plugins={"svc": [1]}), "spec.plugins.svc", id="a number for an argument"),
        pytest.param(
            a_document(tasks=[task(template=a_template(a_container(imagePulPolicy="Always")))]),
            "spec.tasks.0.template.spec.containers.0",
            id="unknown field of a container",
        ),
        pytest.param(
            a_document(tasks=[task(template=a_template(a_container(env=[{"name": "A", "value": 1}])))]),
            "spec.tasks.0.template.spec.containers.0.env.0.value",
            id="a number for a variable",
        ),
        pytest.param(a_document(tasks=[task(template={"spec": {}})]), "spec.tasks.0.template.spec", id="no containers"),
        pytest.param(
            a_document(volumes=[{"mountPath": "/a", "volumeClaim": {"accessModes": "x"}}]),
            "spec.volumes.0.volumeClaim.accessModes",
            id="claim",
        ),
        pytest.param(
            a_document(tasks=[task(dependsOn={"name": ["a"], "iteration": "some"})]),
            "spec.tasks.0.dependsOn.iteration",
            id="iteration",
        ),
        pytest.param(
            {**a_document(), "metadata": {"labels": {"a": 1}}}, "metadata.labels.a", id="a number for a label"
        ),
    ],
)
def test_mistakes_are_invalid(document: Manifest, path: str, checker: jsonschema.Draft7Validator) -> None:
    paths = [".".join(map(str, error.absolute_path)) for error in checker.iter_errors(document)]
    assert paths == [path]


def test_a_plugin_without_a_value_is_valid(checker: jsonschema.Draft7Validator) -> None:
    """Many people write `svc:`."""
    checker.validate(a_document(plugins={"svc": None, "env": []}))


def test_every_field_has_a_description(checker: jsonschema.Draft7Validator) -> None:
    """Editors show it."""
    own = ("JobSpec", "TaskSpec", "LifecyclePolicy", "VolumeSpec", "DependsOn", "PartitionPolicy", "NetworkTopology")
    assert isinstance(checker.schema, dict)
    for name in own:
        for field, schema in checker.schema["definitions"][name]["properties"].items():
            assert schema.get("description"), f"{name}.{field}"
