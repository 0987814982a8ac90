"""What Volcano itself made of some Jobs, recorded as data, and whether Pumice makes the same of them.

The facts come from Volcano's own admission and controller (commit ed72c7c81, plugins in our order) and from an API
server's checks against its definition of a Job. `rendered.jsonl` holds what was added to pods, and all other objects;
`verdicts.jsonl` whether a Job that differs a little from one of `bases.json` is accepted, and where ours is another
verdict, why. Where Pumice adds more on purpose, `docs/differences.md` says so, and it is taken away here.
"""

from __future__ import annotations

import copy
import fnmatch
import json
from pathlib import Path
from typing import Any

import pytest

from pumice.admission.admit import admit
from pumice.client.job_files import as_stored, render
from pumice.plugins.mpi import HOSTFILE
from pumice.plugins.tensorflow import PORT_NAME
from pumice.reconcile.gangs import pod_group
from tests.builders import a_context
from tests.conformance.reduced import reduced_objects, reduced_pod

DATA = Path(__file__).parent / "data"
# The values of the priority classes when the facts were recorded.
PRIORITIES = {"high": 1000, "low": 10}
RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "TF_CONFIG")

Fact = dict[str, Any]


def facts(name: str) -> list[Fact]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


RENDERED = [pytest.param(fact, id=fact["id"]) for fact in facts("rendered.jsonl")]
BASES: dict[str, Fact] = json.loads((DATA / "bases.json").read_text(encoding="utf-8"))
VERDICTS = [
    pytest.param(fact, id=f"{fact['topic']} {index}") for index, fact in enumerate(facts("verdicts.jsonl"), start=1)
]


@pytest.mark.parametrize("fact", RENDERED)
def test_pods_are_those_of_volcano(fact: Fact) -> None:
    made = {manifest["metadata"]["name"]: manifest for manifest in manifests(fact["job"]) if manifest["kind"] == "Pod"}
    templates = {name: template_of(fact["job"], made[name]) for name in fact["pods"]}
    ours = {name: reduced_pod(without_ours(made[name]), template) for name, template in templates.items()}
    assert ours == fact["pods"]


@pytest.mark.parametrize("fact", RENDERED)
def test_other_objects_are_those_of_volcano(fact: Fact) -> None:
    expected, ours = fact["objects"], reduced_objects(manifests(fact["job"]))
    arguments = fact["job"]["spec"].get("plugins", {}).get("svc", [])
    if not any("disable-network-policy" in argument for argument in arguments):
        expected.pop("NetworkPolicy train", None)
    for service in (expected.get("Service train"), ours.get("Service train")):
        if service is not None:
            service["spec"].pop("publishNotReadyAddresses", None)
    if "Secret train-ssh" in ours:
        # Volcano lists the hosts; Pumice has one pattern per task, which must mean the same.
        config = ours["Secret train-ssh"].pop("config")
        listed = listed_hosts(expected["Secret train-ssh"].pop("config"))
        assert {host: reached_at(config, host) for host in listed} == listed
    if "ConfigMap train-svc" in ours:
        ours["ConfigMap train-svc"]["data"].pop(HOSTFILE, None)
    admitted = admit(fact["job"], a_context())
    [group] = reduced_objects([pod_group(as_stored(admitted), PRIORITIES)]).items()
    assert {**ours, group[0]: group[1]} == expected


@pytest.mark.parametrize("fact", RENDERED)
def test_the_user_s_own_words_stay(fact: Fact) -> None:
    for pod in (manifest for manifest in manifests(fact["job"]) if manifest["kind"] == "Pod"):
        template = template_of(fact["job"], pod)
        assert contains(pod["spec"], template["spec"]), pod["metadata"]["name"]


@pytest.mark.parametrize("fact", VERDICTS)
def test_verdicts_are_those_of_volcano_or_differ_for_a_reason(fact: Fact) -> None:
    job = copy.deepcopy(BASES[fact["base"]])
    for path, value in fact["set"].items():
        put(job, path.split("."), value)
    admitted = admit(job, a_context())
    expected = fact.get("pumice", fact["volcano"])
    assert ("accepts" if admitted.is_good else "refuses") == expected, [
        f"{finding.path}: {finding.message}" for finding in admitted.findings
    ]
    assert bool(fact.get("why")) == (expected != fact["volcano"])


def manifests(job: Fact) -> list[Fact]:
    admitted = admit(job, a_context())
    assert admitted.is_good
    return copy.deepcopy(list(render(admitted)))


def listed_hosts(config: str) -> dict[str, tuple[str, str]]:
    """The host name and port of each host that a config of Volcano lists."""
    hosts = {}
    for block in config.split("Host ")[1:]:
        host, (_, name), (_, port) = block.splitlines()[0], *(line.split() for line in block.splitlines()[1:3])
        hosts[host] = (name, port)
    return hosts


def reached_at(config: str, host: str) -> tuple[str, str]:
    """The host name and port by which ssh reaches a host: of each option the first value in a block that matches."""
    found: dict[str, str] = {}
    for line in config.splitlines():
        key, *values = line.split()
        if key == "Host":
            matches = [value.lstrip("!") == value for value in values if fnmatch.fnmatch(host, value.lstrip("!"))]
        elif matches and all(matches):
            found.setdefault(key, values[0])
    return found["HostName"].replace("%h", host), found["Port"]


def template_of(job: Fact, pod: Fact) -> Fact:
    name = pod["metadata"]["labels"]["volcano.sh/task-spec"]
    tasks = job["spec"]["tasks"]
    found = next(task for index, task in enumerate(tasks) if task.get("name", f"default{index}") == name)
    template: Fact = found["template"]
    return template


def without_ours(pod: Fact) -> Fact:
    """A pod without what Pumice adds beyond Volcano.

    That is torchrun's variables, a port for TensorFlow, and for init containers the variables of a rendezvous and the
    claims of the job.
    """
    spec = pod["spec"]
    claims = {volume["name"] for volume in spec.get("volumes", []) if "persistentVolumeClaim" in volume}
    for container in spec["containers"]:
        keep(container, "env", lambda variable: not variable["name"].startswith("PET_"))
        keep(container, "ports", lambda port: port.get("name") != PORT_NAME)
    for container in spec.get("initContainers", []):
        keep(container, "env", lambda variable: not variable["name"].startswith(("PET_", *RENDEZVOUS)))
        keep(container, "volumeMounts", lambda mount: mount["name"] not in claims)
    return pod


def keep(container: Fact, field: str, wanted: Any) -> None:
    if field in container:
        container[field] = list(filter(wanted, container[field]))


def contains(whole: Any, part: Any) -> bool:
    """Whether everything in a part is in the whole, in its place; lists may go on."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and contains(whole[key], part[key]) for key in part)
    if isinstance(part, list):
        return len(whole) >= len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def put(document: Any, path: list[str], value: object) -> None:
    *steps, last = path
    for step in steps:
        document = document[int(step)] if isinstance(document, list) else document.setdefault(step, {})
    if isinstance(document, list):
        document[int(last)] = value
    else:
        document[last] = value
