"""Edits by copy: what was there stays, in its place, and gives way to nothing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from pumice.model.job import Job, JobSpec, TaskSpec
from pumice.model.pod import Pod, add_env, add_port, all_containers, container_path, env_values
from tests.builders import a_container, literal

VOLUME = {"name": "v", "emptyDir": {}}
MOUNT = {"name": "v", "mountPath": "/v"}


def a_pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    return Pod({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}})


def test_properties_of_a_pod() -> None:
    pod = a_pod(a_container(), initContainers=[a_container("init")])
    assert (pod.name, pod.containers, pod.init_containers) == ("p", [a_container()], [a_container("init")])
    assert all_containers(pod.spec) == [a_container("init"), a_container()]
    assert pod.annotations == {}
    assert Pod({"metadata": {"annotations": None}, "spec": {}}).annotations == {}
    assert (Pod({"spec": {"containers": None}}).containers, Pod({"spec": {}}).init_containers) == ([], [])


@pytest.mark.parametrize(
    ("task", "container", "path"),
    [
        pytest.param("a", "main", "spec.tasks[0].template.spec.containers[1]", id="a container"),
        pytest.param("a", "init", "spec.tasks[0].template.spec.initContainers[0]", id="an init container"),
        pytest.param("b", "main", "spec.tasks[1]", id="one that a plugin added"),
    ],
)
def test_container_path(task: str, container: str, path: str) -> None:
    spec = {"initContainers": [a_container("init")], "containers": [a_container("log"), a_container("main")]}
    tasks = [TaskSpec(name="a", template={"spec": spec}), TaskSpec(name="b")]
    assert str(container_path(Job(spec=JobSpec(tasks=tasks)), task, container)) == path


EDITS: dict[str, Callable[[Pod], Pod]] = {
    "with_spec": lambda pod: pod.with_spec(a=1),
    "with_annotation": lambda pod: pod.with_annotation("k", "v"),
    "with_defaults": lambda pod: pod.with_defaults({"hostname": "h"}),
    "edit_containers": lambda pod: pod.edit_containers(lambda c: {**c, "x": 1}, lambda c: {**c, "y": 1}),
    "with_env": lambda pod: pod.with_env(env_values({"E": "1"})),
    "with_port": lambda pod: pod.with_port("p", 1, init=True),
    "with_volume": lambda pod: pod.with_volume(VOLUME, [MOUNT]),
    "with_init_container": lambda pod: pod.with_init_container(a_container("more")),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_no_edit_changes_the_pod_it_is_made_on(edit: Callable[[Pod], Pod]) -> None:
    pod = a_pod(
        a_container(env=literal(A="1"), ports=[{"containerPort": 9}], volumeMounts=[{"name": "m", "mountPath": "/m"}]),
        a_container("other"),
        initContainers=[a_container("init")],
        volumes=[{"name": "m"}],
    )
    before = deepcopy(pod.manifest)
    assert edit(pod).manifest != before
    assert pod.manifest == before


def test_annotations_and_fields() -> None:
    pod = a_pod(hostname="mine", subdomain="")
    assert pod.with_annotation("a", "1").with_annotation("b", "2").annotations == {"a": "1", "b": "2"}
    assert pod.with_defaults({"hostname": "h", "subdomain": "s"}).spec == {
        "containers": [],
        "hostname": "mine",
        "subdomain": "s",
    }


def test_containers_and_init_containers_are_edited_apart() -> None:
    pod = a_pod(a_container(), initContainers=[a_container("init")])

    def marked(mark: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
        return lambda container: {**container, "mark": mark}

    assert pod.edit_containers(marked("c"), marked("i")).spec == {
        "containers": [a_container(mark="c")],
        "initContainers": [a_container("init", mark="i")],
    }
    assert pod.edit_containers(marked("c"), None).init_containers == [a_container("init")]
    assert "initContainers" not in a_pod(a_container()).edit_containers(marked("c"), marked("i")).spec


@pytest.mark.parametrize(
    ("own", "added", "after"),
    [
        pytest.param(None, {}, None, id="nothing"),
        pytest.param(None, {"A": "1"}, literal(A="1"), id="none so far"),
        pytest.param([], {"A": "1"}, literal(A="1"), id="an empty list"),
        pytest.param(literal(B="2"), {"A": "1"}, literal(B="2", A="1"), id="behind the others"),
        pytest.param(literal(A="2"), {"A": "1", "B": "3"}, literal(A="2", B="3"), id="one of that name stays"),
        pytest.param(literal(A="2"), {"A": "1"}, literal(A="2"), id="nothing to add"),
    ],
)
def test_env(own: list[Any] | None, added: dict[str, str], after: list[Any] | None) -> None:
    container = a_container() if own is None else a_container(env=own)
    assert add_env(container, env_values(added)).get("env") == after


@pytest.mark.parametrize(
    ("own", "after"),
    [
        pytest.param(None, [{"name": "p", "containerPort": 1}], id="none so far"),
        pytest.param(
            [{"containerPort": 2, "name": "q"}],
            [{"containerPort": 2, "name": "q"}, {"name": "p", "containerPort": 1}],
            id="behind the others",
        ),
        pytest.param([{"containerPort": 1}], [{"containerPort": 1}], id="the number is there"),
        pytest.param(
            [{"containerPort": 2, "name": "p"}],
            [{"containerPort": 2, "name": "p"}, {"containerPort": 1}],
            id="the name is another's",
        ),
    ],
)
def test_ports(own: list[Any] | None, after: list[Any]) -> None:
    assert add_port(a_container(ports=own), "p", 1)["ports"] == after


PORT = [{"name": "p", "containerPort": 1}]
OTHER = [{"containerPort": 1, "name": "mine"}]


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        pytest.param({}, [PORT, PORT], id="every container"),
        pytest.param({"hostNetwork": True}, [PORT, None], id="the host's network has each port once"),
    ],
)
def test_a_port_for_all(spec: dict[str, Any], ports: list[Any]) -> None:
    pod = a_pod(a_container("a"), a_container("b"), initContainers=[a_container("i")], **spec)
    assert [container.get("ports") for container in pod.with_port("p", 1).containers] == ports
    assert pod.with_port("p", 1).init_containers == [a_container("i")]


def test_a_port_for_init_containers_too() -> None:
    pod = a_pod(a_container(), initContainers=[a_container("i")])
    assert pod.with_port("p", 1, init=True).init_containers == [a_container("i", ports=PORT)]


def test_on_the_host_s_network_a_port_that_is_open_stays_as_it_is() -> None:
    pod = a_pod(a_container("a"), a_container("b", ports=OTHER), hostNetwork=True)
    assert pod.with_port("p", 1) == pod
    assert a_pod(hostNetwork=True).with_port("p", 1).containers == []


def test_a_volume_is_mounted_everywhere_but_where_something_is() -> None:
    taken = {"name": "m", "mountPath": "/v"}
    pod = a_pod(a_container(volumeMounts=[taken]), a_container("b"), initContainers=[a_container("i")])
    mounts = [MOUNT, {"name": "v", "mountPath": "/w"}]
    after = pod.with_volume(VOLUME, mounts)
    assert after.spec["volumes"] == [VOLUME]
    assert [container["volumeMounts"] for container in after.containers] == [[taken, mounts[1]], mounts]
    assert [container["volumeMounts"] for container in after.init_containers] == [mounts]


def test_a_volume_of_that_name_is_the_user_s() -> None:
    own = {"name": "v", "hostPath": {"path": "/"}}
    after = a_pod(a_container(volumeMounts=[MOUNT]), volumes=[own]).with_volume(VOLUME, [MOUNT])
    assert after.spec == {"containers": [a_container(volumeMounts=[MOUNT])], "volumes": [own]}


def test_an_init_container_is_added_once() -> None:
    pod = a_pod(initContainers=[a_container("first")])
    after = pod.with_init_container(a_container("wait")).with_init_container(a_container("wait", image="other"))
    assert after.init_containers == [a_container("first"), a_container("wait")]
