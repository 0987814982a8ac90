"""Volumes as pods find them in a real run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Manifest, Workspace, extra_object, job, task
from tests.local.sandbox.boxes import need_namespaces

CONFIG = extra_object("ConfigMap", "conf", data={"a.txt": "alpha", "b.txt": "beta"})
SECRET = extra_object("Secret", "hush", stringData={"token": "s3cret"})


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def with_volumes(script: str, volumes: dict[str, Manifest], mounts: list[Manifest], **container: Any) -> Manifest:
    """A job of one pod that prints; each volume is given by its name."""
    only = task("only", script, container={"volumeMounts": mounts, **container})
    only["template"]["spec"]["volumes"] = [{"name": name, **source} for name, source in volumes.items()]
    return only


def printed(workspace: Workspace, only: Manifest, *extra_objects: Manifest, **spec: Any) -> list[str]:
    result = workspace.run(job(only, **spec), *extra_objects, flags=["--no-prefix"])
    assert result.code == 0, result.err
    return result.out.splitlines()


def mount(name: str, path: str, **more: Any) -> Manifest:
    return {"name": name, "mountPath": path, **more}


def test_an_empty_directory_is_shared_by_containers_and_lives_as_long_as_the_pod(workspace: Workspace) -> None:
    volumes: dict[str, Manifest] = {"v": {"emptyDir": {}}}
    # The container fails once; what it wrote is there when it is started again.
    script = "cat /v/init /v/again && exit 0; echo again > /v/again; exit 1"
    only = with_volumes(script, volumes, [mount("v", "/v")])
    init: Manifest = {"name": "init", "image": "nowhere", "command": ["sh", "-c", "ls /v; echo begun > /v/init"]}
    only["template"]["spec"] |= {"initContainers": [init | {"volumeMounts": [mount("v", "/v")]}]}
    only["template"]["spec"]["restartPolicy"] = "OnFailure"
    lines = printed(workspace, only)
    assert [line for line in lines if not line.startswith("cat:")] == ["begun", "begun", "again"]


def test_a_replaced_pod_has_an_empty_directory_again(workspace: Workspace) -> None:
    script = "ls /v | wc -l; touch /v/x; [ -e seen ] && exit 0; touch seen; exit 1"
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    only = with_volumes(script, {"v": {"emptyDir": {}}}, [mount("v", "/v")])
    assert printed(workspace, only, policies=policies) == ["0", "0"]


def test_memory_has_the_size_that_it_is_given(workspace: Workspace) -> None:
    volumes = {"m": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}}
    script = """
stat -f -c %T /m
dd if=/dev/zero of=/m/fits bs=1024 count=900 2>/dev/null && echo fits
dd if=/dev/zero of=/m/more bs=1024 count=900 2>/dev/null || echo full
"""
    assert printed(workspace, with_volumes(script, volumes, [mount("m", "/m")])) == ["tmpfs", "fits", "full"]


def test_a_part_of_a_volume(workspace: Workspace) -> None:
    volumes: dict[str, Manifest] = {"c": {"configMap": {"name": "conf"}}, "e": {"emptyDir": {}}}
    mounts = [
        mount("c", "/etc/just-a.txt", subPath="a.txt"),
        mount("e", "/whole"),
        mount("e", "/part", subPath="inner/deep"),
        mount("e", "/named", subPathExpr="of-$(NAME)"),
    ]
    script = "cat /etc/just-a.txt; echo; touch /part/x /named/y; cd /whole; find . -type f | sort"
    only = with_volumes(script, volumes, mounts, env=[{"name": "NAME", "value": "mine"}])
    assert printed(workspace, only, CONFIG) == ["alpha", "./inner/deep/x", "./of-mine/y"]


def test_what_is_projected_into_one_directory(workspace: Workspace) -> None:
    sources: list[Manifest] = [
        {"configMap": {"name": "conf", "items": [{"key": "a.txt", "path": "conf/first"}]}},
        {"secret": {"name": "hush", "items": [{"key": "token", "path": "token", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    volumes = {"p": {"projected": {"sources": sources, "defaultMode": 0o440}}}
    script = """
cd /p
cat conf/first token name; echo
stat -L -c '%a %n' conf/first token
(echo no > token) 2>/dev/null || echo read-only
"""
    lines = printed(workspace, with_volumes(script, volumes, [mount("p", "/p")]), CONFIG, SECRET)
    assert lines == ["alphas3crettrial-only-0", "440 conf/first", "400 token", "read-only"]


def test_what_a_pod_learns_about_itself_from_files(workspace: Workspace) -> None:
    items: list[Manifest] = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "only", "resource": "limits.cpu", "divisor": "1m"}},
    ]
    script = "grep -c 'volcano.sh/job-name=\"trial\"' /d/labels; cat /d/cpu; echo"
    limits = {"resources": {"limits": {"cpu": "250m"}}}
    only = with_volumes(script, {"d": {"downwardAPI": {"items": items}}}, [mount("d", "/d")], **limits)
    assert printed(workspace, only) == ["1", "250"]


def test_directories_of_the_host(workspace: Workspace) -> None:
    (workspace.directory / "data").mkdir()
    (workspace.directory / "data/in").write_text("from the host\n")
    path = str(workspace.directory / "data")
    volumes: dict[str, Manifest] = {"h": {"hostPath": {"path": path, "type": "Directory"}}}
    mounts = [mount("h", "/h"), mount("h", "/closed", readOnly=True)]
    script = "cat /closed/in; echo back > /h/out; (echo no > /closed/out) 2>/dev/null || echo read-only"
    assert printed(workspace, with_volumes(script, volumes, mounts)) == ["from the host", "read-only"]
    assert (workspace.directory / "data/out").read_text() == "back\n"
