"""Volcano's CustomResourceDefinitions, rebuilt from the recorded list of their fields."""

from __future__ import annotations

from typing import Any

from tests.unit.engines.kubernetes.install.test_crds import ABOUT, VOLCANO

Schema = dict[str, Any]


def volcano_definition(name: str) -> Schema:
    about, (plural, _, group) = ABOUT[name], name.partition(".")
    version: Schema = {
        "name": about["version"],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema(VOLCANO[name])},
        "additionalPrinterColumns": about["columns"],
    }
    if about["subresources"] is not None:
        version["subresources"] = about["subresources"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": {**about["names"], "plural": plural},
            "scope": about["scope"],
            "versions": [version],
        },
    }


def _schema(record: dict[str, Schema]) -> Schema:
    whole: dict[str, Schema] = {}
    for path, recorded in sorted(record.items(), key=lambda pair: len(pair[0])):
        part = {key.replace("x-", "x-kubernetes-", 1): value for key, value in recorded.items()}
        whole[path] = part
        if path == ".":
            continue
        if path.endswith("[]"):
            whole[path.removesuffix("[]")]["items"] = part
        elif path.endswith("{}"):
            whole[path.removesuffix("{}")]["additionalProperties"] = part
        else:
            parent, _, field = path.rpartition(".")
            whole[parent or "."].setdefault("properties", {})[field] = part
    return whole["."]
