"""Compares what `pumice render` prints with what a controller creates.

The server sets defaults, and admission plugins add fields. So each rendered object is sent to the server as a dry run,
and the response must equal the created object.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cluster.api import Object, eventually
from tests.cluster.controllers import MAIN, Controllers, apply
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

_PLURALS = {
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "NetworkPolicy": "networkpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PodGroup": "podgroups",
    "Pod": "pods",
}
_VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers")


def check_created(controllers: Controllers, namespace: str, file: Path, gang: str) -> None:
    """Start a controller for the Job of a file; fail unless it creates exactly what `pumice render --gang` prints."""
    api = controllers.cluster.api()
    uid = apply(controllers.cluster, namespace, file)["metadata"]["uid"]
    manifests = _rendered(file, namespace, uid, gang)
    expected = [_comparable(api.call("POST", f"{_path(manifest)}?dryRun=All", manifest)) for manifest in manifests]
    controllers.start(namespace, gang=gang)
    if gang == "volcano":
        [group] = [manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "PodGroup"]
        eventually("the PodGroup exists", lambda: api.find("PodGroup", namespace, group))
        assert api.list("Pod", namespace) == []
        # As Volcano's scheduler does.
        api.patch("PodGroup", namespace, group, {"status": {"phase": "Inqueue"}})
    pods = sum(manifest["kind"] == "Pod" for manifest in manifests)
    eventually("the pods exist", lambda: len(api.list("Pod", namespace)) == pods)
    for manifest, wanted in zip(manifests, expected, strict=True):
        assert _comparable(api.call("GET", f"{_path(manifest)}/{manifest['metadata']['name']}")) == wanted
    for kind, version in {(manifest["kind"], manifest["apiVersion"]) for manifest in manifests}:
        path = _path({"kind": kind, "apiVersion": version, "metadata": {"namespace": namespace}})
        found = {each["metadata"]["name"] for each in api.call("GET", path)["items"]} - {"kube-root-ca.crt"}
        assert found == {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == kind}


def _rendered(file: Path, namespace: str, uid: str, gang: str) -> list[Object]:
    flags = ["-o", "json", f"--namespace={namespace}", f"--uid={uid}", f"--gang={gang}"]
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "render", str(file), *flags],
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    items: list[Object] = json.loads(done.stdout)["items"]
    return items


def _comparable(found: Object) -> Object:
    """Return an object without status and volatile metadata; of a Secret only the names of its keys."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in _VOLATILE}
    kept = {**found, "metadata": metadata, "status": None}
    if found["kind"] == "Secret":
        kept["data"] = sorted(found["data"])
    # The volume of a pod's token has a random name.
    stored: Object = json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access", json.dumps(kept)))
    return stored


def _path(manifest: Object) -> str:
    version, namespace = manifest["apiVersion"], manifest["metadata"]["namespace"]
    return f"/api{'s' * ('/' in version)}/{version}/namespaces/{namespace}/{_PLURALS[manifest['kind']]}"
