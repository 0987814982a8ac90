from __future__ import annotations

import io
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import yaml

from pumice.admission.context import Context
from pumice.cli import jobfile
from pumice.model.job import Manifest
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.runtime.offline_context import offline_context
from tests.unit.cli.running import JOB, Terminal, child, joined

FULL = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: full}
spec:
  plugins:
    ray: [--headContainer=main, --workerContainer=main]
    ssh: []
    svc: [--disable-network-policy=false]
  volumes:
  - {mountPath: /a, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
  - {mountPath: /b, volumeClaimName: there}
  - {mountPath: /c, volumeClaim: {accessModes: [ReadWriteMany], resources: {requests: {storage: 2Gi}}}}
  tasks:
  - {name: worker, replicas: 2, template: &pod {spec: {restartPolicy: Never, containers: [{name: main, image: ray}]}}}
  - {name: head, replicas: 1, dependsOn: {name: [worker]}, template: *pod}
"""
NO_UID = "00000000-0000-0000-0000-000000000000"


def rendered(terminal: Terminal, text: str, *words: str) -> list[Manifest]:
    result = terminal.run("render", terminal.write(text), *words)
    assert (result.code, result.err) == (0, "")
    return list(yaml.safe_load_all(result.out))


def test_order(terminal: Terminal) -> None:
    objects = [(each["kind"], each["metadata"]["name"]) for each in rendered(terminal, FULL)]
    claims = [name for kind, name in objects if kind == "PersistentVolumeClaim"]
    assert objects == [
        ("Service", "full"),
        ("Service", "full-head-svc"),
        ("ConfigMap", "full-svc"),
        ("Secret", "full-ssh"),
        ("NetworkPolicy", "full"),
        ("PersistentVolumeClaim", claims[0]),
        ("PersistentVolumeClaim", claims[1]),
        ("PodGroup", f"full-{NO_UID}"),
        ("Pod", "full-worker-0"),
        ("Pod", "full-worker-1"),
        ("Pod", "full-head-0"),
    ]


def test_json_is_a_list_of_the_same_objects(terminal: Terminal) -> None:
    result = terminal.run("render", terminal.write(FULL), "-o", "json")
    assert json.loads(result.out) == {"apiVersion": "v1", "kind": "List", "items": rendered(terminal, FULL)}
    assert result.out.endswith("}\n")


def test_all_jobs_of_a_file(terminal: Terminal) -> None:
    objects = rendered(terminal, joined([JOB, FULL, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"]))
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "PodGroup"] == [
        f"small-{NO_UID}",
        f"full-{NO_UID}",
    ]


@pytest.mark.parametrize(
    ("metadata", "words", "expected"),
    [
        pytest.param("{name: full}", [], "default", id="default"),
        pytest.param("{name: full, namespace: lab}", [], "lab", id="the file's"),
        pytest.param("{name: full, namespace: lab}", ["--namespace", "flag"], "flag", id="the flag's"),
        pytest.param("{name: full, namespace: lab}", ["--namespace="], "lab", id="empty flag"),
    ],
)
def test_namespace(metadata: str, words: list[str], expected: str, terminal: Terminal) -> None:
    objects = rendered(terminal, FULL.replace("{name: full}", metadata), *words)
    assert {each["metadata"]["namespace"] for each in objects} == {expected}
    selector = objects[0]["spec"]["selector"]
    assert selector["volcano.sh/job-namespace"] == expected


def test_uid(terminal: Terminal) -> None:
    objects = rendered(terminal, FULL, "--uid", "1234-5678")
    owners = {owner["uid"] for each in objects for owner in each["metadata"]["ownerReferences"]}
    assert owners == {"1234-5678"}
    (group,) = [each["metadata"]["name"] for each in objects if each["kind"] == "PodGroup"]
    assert group == "full-1234-5678"


@pytest.mark.parametrize(
    ("gang", "version", "scheduler"),
    [
        pytest.param("volcano", "scheduling.volcano.sh/v1beta1", "volcano", id="volcano"),
        pytest.param("native", "scheduling.k8s.io/v1beta1", "default-scheduler", id="native"),
        pytest.param("coscheduling", "scheduling.x-k8s.io/v1alpha1", "scheduler-plugins-scheduler", id="coscheduling"),
        pytest.param("none", "", "default-scheduler", id="none"),
    ],
)
def test_gang(gang: str, version: str, scheduler: str, terminal: Terminal) -> None:
    """tests/cluster/test_gangs.py compares the objects with those that a controller creates."""
    objects = rendered(terminal, FULL, "--gang", gang)
    assert [each["apiVersion"] for each in objects if each["kind"] == "PodGroup"] == ([version] if version else [])
    assert {each["spec"]["schedulerName"] for each in objects if each["kind"] == "Pod"} == {scheduler}
    if gang == "volcano":
        assert objects == rendered(terminal, FULL)


def test_names_of_claims_are_derived_from_the_uid(terminal: Terminal) -> None:
    def claims(*words: str) -> list[str]:
        return [
            each["metadata"]["name"]
            for each in rendered(terminal, FULL, *words)
            if each["kind"] == "PersistentVolumeClaim"
        ]

    assert claims() == claims("--uid", NO_UID)
    assert set(claims()).isdisjoint(claims("--uid", "1234"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--namespace", "My_Ns"], "--namespace: My_Ns: must be lower-case", id="namespace"),
        pytest.param(["--uid", "A B"], "--uid: A B: must be lower-case", id="uid"),
        pytest.param(["--gang", "auto"], "argument --gang: invalid choice: 'auto'", id="gang"),
        pytest.param(["-o", "xml"], "argument -o/--output: invalid choice: 'xml'", id="output"),
    ],
)
def test_invalid_flags(words: list[str], problem: str, terminal: Terminal) -> None:
    result = terminal.run("render", terminal.write(JOB), *words)
    assert (result.code, result.out) == (2, "")
    assert f"pumice render: error: {problem}" in result.err


def secret_of(terminal: Terminal, args: str, *words: str) -> Manifest:
    text = JOB.replace("spec:\n  tasks", f"spec:\n  plugins: {{ssh: {args}}}\n  tasks", 1)
    result = terminal.run("render", terminal.write(text), *words)
    assert result.code == 0
    (secret,) = [each for each in yaml.safe_load_all(result.out) if each["kind"] == "Secret"]
    data: Manifest = secret["stringData"]
    assert "data" not in secret
    assert data.pop("config").startswith("Host small-worker-* ")
    return data


GIVEN = '["--ssh-private-key=PRIVATE", "--ssh-public-key=PUBLIC"]'


@pytest.mark.parametrize(
    ("args", "words", "expected"),
    [
        pytest.param(
            "[]", [], dict.fromkeys(("id_rsa", "id_rsa.pub", "authorized_keys"), "<made at run time>"), id="generated"
        ),
        pytest.param(
            "[]",
            ["--show-secrets"],
            dict.fromkeys(("id_rsa", "id_rsa.pub", "authorized_keys"), "<made at run time>"),
            id="generated keys are never shown",
        ),
        pytest.param(
            "[--ssh-key-type=ed25519]",
            [],
            dict.fromkeys(("id_ed25519", "id_ed25519.pub", "authorized_keys"), "<made at run time>"),
            id="another key type",
        ),
        pytest.param(
            GIVEN, [], dict.fromkeys(("id_rsa", "id_rsa.pub", "authorized_keys"), "<given in the file>"), id="given"
        ),
        pytest.param(
            GIVEN,
            ["--show-secrets"],
            {"id_rsa": "PRIVATE", "id_rsa.pub": "PUBLIC", "authorized_keys": "PUBLIC"},
            id="given, --show-secrets",
        ),
    ],
)
def test_keys(args: str, words: list[str], expected: Manifest, terminal: Terminal) -> None:
    assert secret_of(terminal, args, *words) == expected


@pytest.mark.parametrize("command", ["render", "explain", "validate"])
def test_given_keys_are_printed_nowhere_else(command: str, terminal: Terminal) -> None:
    text = JOB.replace("spec:\n  tasks", f"spec:\n  plugins: {{ssh: {GIVEN}}}\n  tasks", 1)
    result = terminal.run(command, terminal.write(text))
    assert "PRIVATE" not in result.out + result.err
    assert "PUBLIC" not in result.out + result.err


def test_warnings_go_to_stderr(terminal: Terminal) -> None:
    text = JOB.replace("spec:\n  tasks", "spec:\n  policies: [{event: PodPending, action: AbortJob}]\n  tasks", 1)
    result = terminal.run("render", terminal.write(text))
    assert result.code == 0
    assert "warning" not in result.out
    assert result.err == (
        "job.yaml:6: warning: spec.policies[0]: never acts: PodPending needs a timeout\n"
        "  hint: add timeout: 5m\n"
        "1 warning\n"
    )


@pytest.mark.parametrize("command", ["render", "explain"])
def test_after_an_error_nothing_is_rendered(command: str, terminal: Terminal) -> None:
    assert terminal.run(command, terminal.write(JOB.replace("replicas: 2", "replicas: -2"))) == (
        2,
        "",
        "job.yaml:8: spec.tasks[0].replicas: -2: must be 0 or more\n1 error\n",
    )


@pytest.mark.parametrize("command", ["render", "explain"])
def test_a_file_without_a_job(command: str, terminal: Terminal) -> None:
    file = terminal.write("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert terminal.run(command, file) == (2, "", "job.yaml: the file contains no Job\n")


def test_standard_input(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    file = terminal.run("render", terminal.write(FULL)).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FULL.encode())))
    assert terminal.run("render", "-").out == file


def test_rendering_does_not_depend_on_the_hash_seed(terminal: Terminal) -> None:
    terminal.write(FULL)
    results = [
        child("render", "job.yaml", env={**os.environ, "PYTHONHASHSEED": seed}, cwd=terminal.folder)
        for seed in ("0", "1", "424242")
    ]
    assert len(set(results)) == 1
    assert results[0].code == 0


def test_status_and_server_side_metadata_are_ignored(terminal: Terminal) -> None:
    stored = FULL.replace("{name: full}", "{name: full, uid: x, resourceVersion: '5', generation: 3}")
    stored += "status: {version: 7, state: {phase: Running}}\n"
    assert rendered(terminal, stored) == rendered(terminal, FULL)


@dataclass(frozen=True, slots=True)
class Fickle(Base):
    """A third-party plugin that fails for all pods but the last of a task, which is the one that admission tries."""

    name: ClassVar[str] = "fickle"

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if slot.index == 0:
            raise RuntimeError("boom")
        return pod


@pytest.mark.parametrize("words", [["render"], ["render", "-o", "json"], ["explain"]], ids=" ".join)
def test_a_plugin_that_fails_after_admission(
    words: list[str], terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def context(**_: Any) -> Context:
        return Context(Registry({"fickle": Fickle}), offline_context().kubernetes)

    monkeypatch.setattr(jobfile, "offline_context", context)
    file = terminal.write(JOB.replace("spec:\n  tasks", "spec:\n  plugins: {fickle: []}\n  tasks", 1))
    result = terminal.run(*words, file)
    assert result.code == 2
    assert result.err == "job.yaml: plugin fickle failed: RuntimeError: boom\n"
    assert "kind: Pod\n" not in result.out
