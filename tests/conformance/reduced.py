"""Pods and objects reduced to what a controller added to the user's own words, so that two controllers can be compared.

Random names of claims and of their volumes become their place in the list.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any

Manifest = dict[str, Any]

_LISTS = ("containers", "initContainers", "volumes")
_SUFFIX = re.compile(r"-[0-9a-z]{12}$")


def reduced_pod(pod: Manifest, template: Manifest) -> Manifest:
    """What stands in a pod beyond its template."""
    metadata, spec = template.get("metadata") or {}, template["spec"]
    own_volumes = spec.get("volumes") or []
    volumes = (pod["spec"].get("volumes") or [])[len(own_volumes) :]
    names = {volume["name"]: _volume_name(volume, index) for index, volume in enumerate(volumes)}
    made = {
        "labels": _beyond(pod["metadata"]["labels"], metadata.get("labels") or {}),
        "annotations": _beyond(pod["metadata"]["annotations"], metadata.get("annotations") or {}),
        "spec": _beyond({key: value for key, value in pod["spec"].items() if key not in _LISTS}, spec),
        "volumes": [_reduced_volume(volume, names) for volume in volumes],
    }
    for kind in ("containers", "initContainers"):
        own = {container["name"]: container for container in spec.get(kind) or []}
        made[kind] = {
            container["name"]: reduced_container(container, own.get(container["name"], {}), names)
            for container in pod["spec"].get(kind) or []
        }
    return {key: value for key, value in made.items() if value}


def reduced_container(container: Manifest, own: Manifest, volumes: Mapping[str, str]) -> Manifest:
    """What stands in a container beyond the user's own, in the order in which it was added."""
    env = (container.get("env") or [])[len(own.get("env") or []) :]
    ports = (container.get("ports") or [])[len(own.get("ports") or []) :]
    mounts = (container.get("volumeMounts") or [])[len(own.get("volumeMounts") or []) :]
    made: Manifest = {
        "env": [[variable["name"], _reduced_value(variable)] for variable in env],
        "ports": [[port.get("name", ""), port["containerPort"]] for port in ports],
        "mounts": [
            [mount["mountPath"], volumes.get(mount["name"], mount["name"]), mount.get("subPath", "")]
            for mount in mounts
        ],
    }
    if not own:
        made["image"] = container["image"]
    elif container.get("command") != own.get("command"):
        made["command"] = container["command"]
    return {key: value for key, value in made.items() if value}


def reduced_objects(manifests: Iterable[Manifest]) -> Manifest:
    """Everything but pods, by kind and name."""
    made: Manifest = {}
    for manifest in manifests:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind == "PersistentVolumeClaim":
            made.setdefault(kind, []).append([_SUFFIX.sub("-*", name), manifest["spec"]])
        elif kind == "Secret":
            made[f"{kind} {name}"] = _reduced_secret(manifest)
        elif kind != "Pod":
            made[f"{kind} {name}"] = _reduced_object(manifest)
    if "PersistentVolumeClaim" in made:
        made["PersistentVolumeClaim"].sort(key=repr)
    return made


def _reduced_object(manifest: Manifest) -> Manifest:
    metadata = {key: manifest["metadata"].get(key) for key in ("labels", "annotations")}
    owner = {key: value for key, value in manifest["metadata"]["ownerReferences"][0].items() if key != "uid"}
    kept = {**metadata, "owner": owner, "data": manifest.get("data"), "spec": manifest.get("spec")}
    return {key: value for key, value in kept.items() if value}


def _reduced_secret(manifest: Manifest) -> Manifest:
    data = {key: base64.b64decode(value).decode() for key, value in (manifest.get("data") or {}).items()}
    data |= manifest.get("stringData") or {}
    return {"files": sorted(data), "config": data["config"]}


def _beyond(whole: Mapping[str, Any], own: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in whole.items() if own.get(key) != value}


def _volume_name(volume: Manifest, index: int) -> str:
    return f"claim {index}" if "persistentVolumeClaim" in volume else str(volume["name"])


def _reduced_volume(volume: Manifest, names: Mapping[str, str]) -> Manifest:
    source = {key: value for key, value in volume.items() if key != "name"}
    if "persistentVolumeClaim" in source:
        source = {"claim": _SUFFIX.sub("-*", source["persistentVolumeClaim"]["claimName"])}
    return {"name": names[volume["name"]], **source}


def _reduced_value(variable: Manifest) -> str:
    if "valueFrom" in variable:
        reference = variable["valueFrom"]["configMapKeyRef"]
        return f"{reference['name']}/{reference['key']}"
    return str(variable.get("value", ""))
