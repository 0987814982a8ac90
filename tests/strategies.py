"""Random Jobs for property tests: good ones by construction, wild ones, and documents of any kind."""

from __future__ import annotations

import copy
import string
from typing import Any

from hypothesis import strategies as st

from pumice.model.job import Manifest
from tests.builders import a_document

WORDS = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=6).map(lambda word: f"n{word}")
TASK_NAMES = st.sampled_from(["master", "worker", "ps", "chief", "head", "node", "big-worker"])
ENV_NAMES = st.sampled_from(
    ["A", "B", "RANK", "MASTER_ADDR", "WORLD_SIZE", "VC_TASK_INDEX", "VC_WORKER_HOSTS", "TF_CONFIG", "MPI_HOST"]
)
PORTS = st.sampled_from([22, 80, 2222, 6379, 8265, 23456])
MOUNT_PATHS = st.sampled_from(["/data", "/etc/volcano", "/root/.ssh", "/scratch"])
PORT_NAMES = st.sampled_from([None, "web", "gcs", "mpijob-port"])


@st.composite
def containers(draw: st.DrawFn, name: str) -> Manifest:
    container: Manifest = {"name": name, "image": "example.com/image:1"}
    if draw(st.booleans()):
        names = draw(st.lists(ENV_NAMES, unique=True, max_size=3))
        container["env"] = [{"name": name, "value": draw(WORDS)} for name in names]
    if draw(st.booleans()):
        numbers = draw(st.lists(PORTS, unique=True, max_size=2))
        titles = draw(st.lists(PORT_NAMES, min_size=2, max_size=2, unique=True))
        container["ports"] = [
            {"containerPort": number} | ({"name": title} if title else {})
            for number, title in zip(numbers, titles, strict=False)
        ]
    if draw(st.booleans()):
        paths = draw(st.lists(MOUNT_PATHS, unique=True, max_size=2))
        container["volumeMounts"] = [{"name": "own", "mountPath": path} for path in paths]
    if draw(st.booleans()):
        container["resources"] = {"limits": {draw(st.sampled_from(["cpu", "nvidia.com/gpu"])): draw(st.integers(1, 8))}}
    if draw(st.booleans()):
        container["command"] = ["sh", "-c", "true"]
    if draw(st.booleans()):
        container["imagePullPolicy"] = "IfNotPresent"
    return container


@st.composite
def templates(draw: st.DrawFn) -> Manifest:
    names = draw(st.lists(st.sampled_from(["main", "head", "worker", "side"]), min_size=1, max_size=2, unique=True))
    spec: Manifest = {
        "containers": [draw(containers(name)) for name in names],
        "restartPolicy": draw(st.sampled_from(["Never", "OnFailure"])),
        "volumes": [{"name": "own", "emptyDir": {}}],
    }
    if draw(st.booleans()):
        spec["initContainers"] = [draw(containers(draw(st.sampled_from(["init", "wait-for-master"]))))]
    if draw(st.booleans()):
        spec["subdomain"] = draw(WORDS)
    if draw(st.booleans()):
        spec["hostname"] = draw(WORDS)
    template: Manifest = {"spec": spec}
    if draw(st.booleans()):
        template["metadata"] = {"labels": {"app": draw(WORDS)}, "annotations": {"note": draw(st.text(max_size=5))}}
    return template


PLUGINS: dict[str, st.SearchStrategy[list[str]]] = {
    "env": st.just([]),
    "svc": st.lists(
        st.sampled_from(
            ["--disable-network-policy=false", "publishNotReadyAddresses=false", "--inject-hosts-env=false"]
        ),
        unique=True,
    ),
    "ssh": st.sampled_from([[], ["--ssh-key-type=ed25519"], ["--ssh-key-file-path=/home/mpi/.ssh --ssh-port=2222"]]),
    "pytorch": st.sampled_from(
        [["--wait-master-enabled"], ["--nproc-per-node=2", "-port", "29500"], ["--master=worker", "--worker=worker"]]
    ),
    "tensorflow": st.sampled_from([[], ["--port=80"]]),
    "mpi": st.sampled_from([[], ["--master=head"]]),
    "ray": st.sampled_from([[], ["--headContainer=main", "--workerContainer=main"]]),
    "hcclrank": st.just([]),
}


@st.composite
def good_documents(draw: st.DrawFn) -> Manifest:
    """Jobs in which everything fits together, save perhaps for what plugins want of tasks and containers."""
    names = draw(st.lists(TASK_NAMES, min_size=1, max_size=3, unique=True))
    tasks = [{"name": name, "replicas": draw(st.integers(0, 3)), "template": draw(templates())} for name in names]
    chosen = draw(st.lists(st.sampled_from(sorted(PLUGINS)), unique=True, max_size=4))
    document = a_document(tasks=tasks, plugins={name: draw(PLUGINS[name]) for name in chosen})
    if draw(st.booleans()):
        document["spec"]["volumes"] = [
            {"mountPath": "/claimed", "volumeClaimName": draw(WORDS)},
            {
                "mountPath": "/made",
                "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ]
    return document


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
    st.sampled_from(["true", "2", "Never", "PodFailed", "*", "5m", "--port=1", "1Gi"]),
)
keys = st.one_of(st.text(max_size=6), st.sampled_from(["name", "spec", "tasks", "env", "plugins"]), st.integers(0, 3))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
any_documents = st.dictionaries(
    st.one_of(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "status"]), keys), anything, max_size=5
)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, item in items for path in _paths(item, (*at, key)))]


@st.composite
def wild_documents(draw: st.DrawFn) -> Manifest:
    """A good Job in which one to three places hold anything at all, are gone, or hold a field too many."""
    document: Any = copy.deepcopy(draw(good_documents()))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in _paths(document) if path]))
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        match draw(st.sampled_from(["change", "remove", "add"])):
            case "change":
                holder[path[-1]] = draw(anything)
            case "remove":
                holder.pop(path[-1])
            case _ if isinstance(holder, dict):
                holder[draw(keys)] = draw(anything)
            case _:
                holder.append(draw(anything))
    result: Manifest = document
    return result
