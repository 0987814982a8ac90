"""Make the compact schema of pod templates and claims from the OpenAPI document of a Kubernetes release.

    python scripts/compact_schema.py SWAGGER.json [VERSION] > src/pumice/data/kubernetes.json

SWAGGER.json is the file api/openapi-spec/swagger.json in the source of that release, or what a cluster answers to
`kubectl get --raw /openapi/v2`. A cluster's answer says its version; the file in the source does not, so name it.
Only shapes are kept (names and types of fields, which are required, how lists are merged), none of the text, one type a
line, so that the difference between two releases can be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

ROOTS: Final = ("PodTemplateSpec", "PersistentVolumeClaimSpec", "PersistentVolumeClaim", "ConfigMap", "Secret")
CORE: Final = "io.k8s.api.core.v1."
# Types that are one value on the wire, whatever their schema says.
SCALARS: Final = {
    "Quantity": "quantity",
    "IntOrString": "intOrString",
    "Time": "time",
    "MicroTime": "time",
    "FieldsV1": "object",
}
FORMATS: Final = {"byte": "bytes", "date-time": "time"}
PLAIN: Final = {"boolean": "bool", "number": "number", "object": "object", "string": "string"}

Definition = dict[str, Any]


def short_name(reference: str) -> str:
    return reference.rpartition(".")[2]


def type_of(field: Definition) -> str:
    if "$ref" in field:
        name = short_name(field["$ref"])
        return SCALARS.get(name, name)
    kind = field.get("type")
    if kind == "array":
        return "[]" + type_of(field["items"])
    if kind == "object" and "additionalProperties" in field:
        return "{}" + type_of(field["additionalProperties"])
    if kind == "integer":
        return str(field.get("format", "int64"))
    return FORMATS.get(field.get("format", ""), PLAIN.get(str(kind), "any"))


def references(field: object) -> list[str]:
    if isinstance(field, list):
        return [name for item in field for name in references(item)]
    if not isinstance(field, dict):
        return []
    own = [str(field["$ref"]).rpartition("/")[2]] if isinstance(field.get("$ref"), str) else []
    return own + [name for item in field.values() for name in references(item)]


def reachable(definitions: dict[str, Definition]) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    waiting = [CORE + name for name in ROOTS]
    while waiting:
        full = waiting.pop()
        name = short_name(full)
        if name in SCALARS or found.get(name) is definitions[full]:
            continue
        if name in found:
            raise SystemExit(f"two types are called {name}")
        found[name] = definitions[full]
        waiting += references(definitions[full].get("properties", {}))
    return found


def compact(definition: Definition) -> Definition:
    properties = definition.get("properties", {})
    out: Definition = {"fields": {name: type_of(properties[name]) for name in sorted(properties)}}
    if definition.get("required"):
        out["required"] = sorted(definition["required"])
    merge = {name: merged for name in sorted(properties) if (merged := merging(properties[name]))}
    if merge:
        out["merge"] = merge
    if definition.get("x-kubernetes-map-type") == "atomic":
        out["atomic"] = True
    return out


def merging(field: Definition) -> str:
    """How server-side apply joins what several authors wrote there, where that is not the rule for its type."""
    if field.get("x-kubernetes-list-type") == "map":
        return ",".join(field["x-kubernetes-list-map-keys"])
    if field.get("x-kubernetes-list-type") == "set":
        return "set"
    return "atomic" if field.get("x-kubernetes-map-type") == "atomic" else ""


def document(swagger: Definition, version: str) -> str:
    types = reachable(swagger["definitions"])
    lines = ",\n".join(
        f"{json.dumps(name)}:{json.dumps(compact(types[name]), separators=(',', ':'))}" for name in sorted(types)
    )
    return f'{{"kubernetes":{json.dumps(version)},"types":{{\n{lines}\n}}}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the compact schema of pod templates from Kubernetes' OpenAPI.")
    parser.add_argument("swagger", help="the OpenAPI v2 document of a Kubernetes release")
    parser.add_argument("version", nargs="?", help="the release, such as v1.37.1, where the document does not say it")
    arguments = parser.parse_args()
    swagger = json.loads(Path(arguments.swagger).read_bytes())
    version = arguments.version or swagger["info"]["version"]
    if version == "unversioned":
        parser.error("the document does not say which release it is from: name it as the second argument")
    sys.stdout.write(document(swagger, version))


if __name__ == "__main__":
    main()
