"""Writes src/pumice/data/crds.json: the CustomResourceDefinitions of Job, Command, PodGroup and Queue.

    python -m scripts.crds

Each definition is a superset of Volcano's and can be applied over it while jobs run: it has the same names, columns and
subresources. Going back to Volcano's definitions loses only the fields that Pumice adds. `make docs` calls this script,
and a test compares the file with what it writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from pumice.runtime.kubernetes_types import kubernetes_types
from scripts.crd_job import command_schema, job_schema
from scripts.crd_scheduling import pod_group_schema, queue_schema

FILE: Final = Path(__file__).resolve().parents[1] / "src" / "pumice" / "data" / "crds.json"
# Longer values are split into one line per member, so that a change shows as a few lines of a diff.
LONGEST_LINE: Final = 200

Manifest = dict[str, Any]

_AGE: Final = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_QUEUE: Final = {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1}


def definitions() -> list[Manifest]:
    return [
        _definition(
            "jobs.batch.volcano.sh",
            "Job",
            ["vcjob", "vj"],
            {
                "name": "v1alpha1",
                "additionalPrinterColumns": [
                    _column("STATUS", "string", ".status.state.phase"),
                    _column("minAvailable", "integer", ".status.minAvailable"),
                    _column("RUNNINGS", "integer", ".status.running"),
                    _AGE,
                    _QUEUE,
                ],
                "schema": job_schema(kubernetes_types().types),
                "subresources": {"status": {}},
            },
        ),
        _definition("commands.bus.volcano.sh", "Command", [], {"name": "v1alpha1", "schema": command_schema()}),
        _definition(
            "podgroups.scheduling.volcano.sh",
            "PodGroup",
            ["pg", "podgroup-v1beta1"],
            {
                "name": "v1beta1",
                "additionalPrinterColumns": [
                    _column("STATUS", "string", ".status.phase"),
                    _column("minMember", "integer", ".spec.minMember"),
                    _column("RUNNINGS", "integer", ".status.running"),
                    _AGE,
                    _QUEUE,
                ],
                "schema": pod_group_schema(),
                # Volcano's scheduler writes the status together with the rest of the object.
                "subresources": {},
            },
        ),
        _definition(
            "queues.scheduling.volcano.sh",
            "Queue",
            ["q", "queue-v1beta1"],
            {
                "name": "v1beta1",
                "additionalPrinterColumns": [_column("PARENT", "string", ".spec.parent")],
                "schema": queue_schema(),
                "subresources": {"status": {}},
            },
            scope="Cluster",
        ),
    ]


def text() -> str:
    return _encoded(definitions()) + "\n"


def main() -> int:
    FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {FILE.name}")
    return 0


def _definition(name: str, kind: str, short_names: list[str], version: Manifest, scope: str = "Namespaced") -> Manifest:
    plural, _, group = name.partition(".")
    names: Manifest = {"kind": kind, "listKind": f"{kind}List", "plural": plural}
    if short_names:
        names["shortNames"] = short_names
    names["singular"] = kind.lower()
    version = {"name": version.pop("name"), "served": True, "storage": True, **version}
    version["schema"] = {"openAPIV3Schema": version["schema"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }


def _column(name: str, type_: str, path: str) -> Manifest:
    return {"name": name, "type": type_, "jsonPath": path}


def _encoded(value: object) -> str:
    line = json.dumps(value, separators=(",", ":"))
    if len(line) <= LONGEST_LINE or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(_encoded, value)) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}:{_encoded(inner)}" for key, inner in value.items()) + "\n}"


if __name__ == "__main__":
    sys.exit(main())
