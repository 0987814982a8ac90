from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.kubernetes.install.crds import custom_resources, dropped_fields
from pumice.model.job import PUMICE_FIELDS
from pumice.runtime.kubernetes_types import kubernetes_types
from scripts import crds

Schema = dict[str, Any]

OURS = {crd["metadata"]["name"]: crd for crd in custom_resources(volcano=True)}
# Keywords that make a schema narrower; allowed only where Volcano's schema has the same.
LIMITS = ("format", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "pattern")
# Volcano's generator marks these as atomic; Kubernetes' own schema does not.
ATOMIC_IN_VOLCANO = ("configMapRef", "secretRef", "configMap", "secret")


def recorded() -> tuple[dict[str, Schema], dict[str, dict[str, Schema]]]:
    """Return for each definition its names and columns, and its schema by path."""
    about: dict[str, Schema] = {}
    schemas: dict[str, dict[str, Schema]] = {}
    name = ""
    for line in Path(__file__).with_name("volcano_schemas.txt").read_text().splitlines():
        words = line.split(" ", 2)
        if words[0] == "=":
            name = words[1]
            about[name], schemas[name] = json.loads(words[2]), {}
        elif words[0] != "#":
            path, _, text = line.partition(" ")
            schemas[name][path] = json.loads(text)
    return about, schemas


ABOUT, VOLCANO = recorded()


def schema(crd: Schema) -> Schema:
    found: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def flattened(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path or ".", schema
    for name, inner in schema.get("properties", {}).items():
        yield from flattened(inner, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from flattened(schema["items"], path + "[]")
    if "additionalProperties" in schema:
        yield from flattened(schema["additionalProperties"], path + "{}")


def narrower(theirs: Schema, ours: Schema) -> list[str]:
    """Return the keywords by which our schema rejects or changes values that Volcano's accepts."""
    found = [limit for limit in LIMITS if limit in ours and not _is_as_wide(theirs, ours, limit)]
    if ours.get("type") != theirs.get("type"):
        found.append("type")
    if ours.get("x-kubernetes-int-or-string") != theirs.get("x-int-or-string"):
        found.append("int-or-string")
    if not set(ours.get("required", ())) <= set(theirs.get("required", ())):
        found.append("required")
    if "default" in ours and ours["default"] != theirs.get("default"):
        found.append("default")
    merging = ("list-type", "list-map-keys")
    merged = [
        word for word in merging if ours.get(f"x-kubernetes-{word}", "atomic") != theirs.get(f"x-{word}", "atomic")
    ]
    return found + merged


def _is_as_wide(theirs: Schema, ours: Schema, limit: str) -> bool:
    if limit == "pattern" and "x-kubernetes-int-or-string" in ours:
        return True
    if limit == "enum":
        return limit in theirs and set(theirs[limit]) <= set(ours[limit])
    return bool(ours[limit] == theirs.get(limit))


def test_the_shipped_definitions_are_current() -> None:
    assert crds.FILE.read_text(encoding="utf-8") == crds.text(), "run make docs"


@pytest.mark.parametrize("name", VOLCANO)
class TestSuperset:
    def test_every_field_of_volcano_is_present_and_no_narrower(self, name: str) -> None:
        ours = dict(flattened(schema(OURS[name])))
        assert [path for path in VOLCANO[name] if path not in ours] == []
        keywords = {path: narrower(theirs, ours[path]) for path, theirs in VOLCANO[name].items()}
        assert {path: found for path, found in keywords.items() if found} == {}

    def test_atomic_fields_of_volcano_are_atomic(self, name: str) -> None:
        ours = dict(flattened(schema(OURS[name])))
        split = {
            path.rpartition(".")[2]
            for path, theirs in VOLCANO[name].items()
            if theirs.get("x-map-type") == "atomic" and ours[path].get("x-kubernetes-map-type") != "atomic"
        }
        assert split <= set(ATOMIC_IN_VOLCANO)

    def test_names_columns_and_subresources_match_volcano(self, name: str) -> None:
        spec, about = OURS[name]["spec"], ABOUT[name]
        (version,) = spec["versions"]
        assert spec["names"] == about["names"]
        assert spec["scope"] == about["scope"]
        assert version["name"] == about["version"]
        assert version.get("additionalPrinterColumns", []) == about["columns"]
        assert version.get("subresources") == about["subresources"]
        assert spec["conversion"] == {"strategy": "None"}
        assert (version["served"], version["storage"]) == (True, True)


@pytest.mark.parametrize("name", OURS)
def test_schemas_are_structural(name: str) -> None:
    """The rules of apiextensions.k8s.io/v1 that can be checked offline; tests/cluster covers the rest."""
    for path, part in flattened(schema(OURS[name])):
        assert "$ref" not in part, path
        free = part.get("x-kubernetes-int-or-string") or part.get("x-kubernetes-preserve-unknown-fields")
        assert "type" in part or free, path
        assert not ("properties" in part and "additionalProperties" in part), path
        assert part.get("type") != "array" or "items" in part, path
        for key in part.get("x-kubernetes-list-map-keys", ()):
            item = part["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], (path, key)
        assert "default" not in part or part["default"] in part.get("enum", [part["default"]]), path


def test_only_the_own_fields_of_pumice_go_beyond_volcano() -> None:
    job = dict(flattened(schema(OURS["jobs.batch.volcano.sh"])))
    assert set(PUMICE_FIELDS) <= job.keys()
    beyond = {path for path in job if path not in VOLCANO["jobs.batch.volcano.sh"] and ".template." not in path}
    assert {path.removesuffix("[]") for path in beyond} == set(PUMICE_FIELDS)
    assert dropped_fields(OURS["jobs.batch.volcano.sh"]) == ()


def test_the_template_has_every_field_of_kubernetes_containers() -> None:
    job = dict(flattened(schema(OURS["jobs.batch.volcano.sh"])))
    types = kubernetes_types().types
    container = {f"spec.tasks[].template.spec.containers[].{field}" for field in types["Container"].fields}
    assert container <= job.keys()
    assert job["spec.tasks[].template.spec.containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert job["spec.tasks[].template.spec.containers"]["description"] == "see kubectl explain pod.spec.containers"


def test_every_field_of_the_job_has_a_description() -> None:
    for path, part in flattened(schema(OURS["jobs.batch.volcano.sh"])):
        if "[]" not in path and "{}" not in path and not path.startswith("status.") and path != "metadata":
            assert part.get("description"), path


def test_without_volcano_only_job_and_command_are_defined() -> None:
    assert [crd["metadata"]["name"] for crd in custom_resources(volcano=False)] == [
        "jobs.batch.volcano.sh",
        "commands.bus.volcano.sh",
    ]


def definition(schema: object) -> Schema:
    return {"spec": {"versions": [{"name": "v1"}, {"name": "v1alpha1", "schema": {"openAPIV3Schema": schema}}]}}


def nested(*steps: str) -> Schema:
    inner: Schema = {"type": "string"}
    for step in reversed(steps):
        inner = {"properties": {step.removesuffix("[]"): {"items": inner} if step.endswith("[]") else inner}}
    return inner


@pytest.mark.parametrize(
    ("crd", "kept"),
    [
        pytest.param(definition(nested("spec", "suspend")), {"spec.suspend"}, id="one field"),
        pytest.param(
            definition(nested("spec", "tasks[]", "policies[]", "exitCodes")),
            {"spec.tasks[].policies[].exitCodes"},
            id="nested field",
        ),
        pytest.param(
            definition({"x-kubernetes-preserve-unknown-fields": True}),
            set(PUMICE_FIELDS),
            id="preserves unknown fields",
        ),
        pytest.param(definition({}), set(), id="empty schema"),
        pytest.param({"spec": {"versions": [{"name": "v1"}]}}, set(), id="another version"),
        pytest.param({}, set(), id="no versions"),
        pytest.param({"spec": {"versions": ["text", {"name": "v1alpha1", "schema": []}]}}, set(), id="malformed"),
    ],
)
def test_dropped_fields(crd: Schema, kept: set[str]) -> None:
    assert set(dropped_fields(crd)) == set(PUMICE_FIELDS) - kept
