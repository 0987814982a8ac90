from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import container, in_container, pod, rules

NAME = "must be lower-case letters, digits or '-', with at least one letter and no '-' at either end or twice in a row"


def ports(*ports: dict[str, object], **spec: object) -> dict[str, object]:
    return in_container(ports=list(ports)) | spec


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(ports({"containerPort": 1}, {"containerPort": 65535, "protocol": "SCTP"}), id="the range"),
        pytest.param(
            ports({"containerPort": 80}, {"containerPort": 80}), id="a port twice, as long as none is the node's"
        ),
        pytest.param(ports({"containerPort": 80, "hostPort": 0, "protocol": ""}), id="unset"),
        pytest.param(
            ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "protocol": "UDP"}),
            id="one node port for each protocol",
        ),
        pytest.param(
            ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}),
            id="one node port for each address",
        ),
        pytest.param(
            ports({"containerPort": 80, "hostPort": 80}, {"containerPort": 81}, hostNetwork=True), id="node's network"
        ),
        pytest.param(
            pod(
                initContainers=[
                    container(name="a", ports=[{"containerPort": 80, "hostPort": 80}]),
                    container(name="b", ports=[{"containerPort": 80, "hostPort": 80}]),
                ]
            ),
            id="init containers run one after another",
        ),
        pytest.param(
            pod(initContainers=[container(name="a", ports=[{"containerPort": 80, "hostPort": 81}])], hostNetwork=True),
            id="node's network for an init container",
        ),
        pytest.param(ports({"containerPort": None}, hostNetwork=True) | {"containers": [container()]}, id="no ports"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(ports({}), ["containerPort: is required"], id="missing"),
        pytest.param(ports({"containerPort": 0}), ["containerPort: is required"], id="zero"),
        pytest.param(ports({"containerPort": 65536}), ["containerPort: must be from 1 to 65535"], id="too large"),
        pytest.param(
            ports({"containerPort": 80, "hostPort": -1}), ["hostPort: must be from 1 to 65535"], id="node port"
        ),
        pytest.param(ports({"containerPort": 80, "name": "80"}), [f"name: {NAME}"], id="name"),
        pytest.param(
            ports({"containerPort": 80, "name": "a" * 16}),
            ["name: must be at most 15 characters, this has 16"],
            id="long name",
        ),
        pytest.param(
            ports({"containerPort": 80, "protocol": "tcp"}), ["protocol: must be TCP, UDP or SCTP"], id="protocol"
        ),
        pytest.param(
            ports({"containerPort": 80, "hostPort": 81}, hostNetwork=True),
            ["hostPort: must be 80, as containerPort, because hostNetwork is true"],
            id="another number outside in the node's network",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].ports[0].{text}" for text in expected]


def test_two_ports_of_one_name() -> None:
    at = "spec.containers[0].ports"
    assert rules(ports({"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"})) == [
        f"{at}[1].name: the name of a port is already used at {at}[0].name"
    ]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"port": {"containerPort": 80, "hostPort": 90}}, id="asked for"),
        pytest.param({"port": {"containerPort": 90}, "hostNetwork": True}, id="by the node's network"),
    ],
)
def test_two_containers_with_one_port_of_the_node(fields: dict[str, object]) -> None:
    port = fields.pop("port")
    spec = pod(containers=[container(ports=[port]), container(name="b", ports=[port])], **fields)
    assert rules(spec) == [
        "spec.containers[1].ports[0].hostPort: port 90 of the node is already used at spec.containers[0].ports[0]"
    ]


def test_one_init_container_with_one_port_of_the_node_twice() -> None:
    port, at = {"containerPort": 80, "hostPort": 90}, "spec.initContainers[0].ports"
    assert rules(pod(initContainers=[container(name="a", ports=[port, port])])) == [
        f"{at}[1].hostPort: port 90 of the node is already used at {at}[0]"
    ]
