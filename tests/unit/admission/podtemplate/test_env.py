from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import hints, in_container, rules

SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
SOURCES = "fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef or fileKeyRef"
FIELDS = (
    "metadata.name, metadata.namespace, metadata.uid, spec.nodeName, spec.serviceAccountName, status.hostIP, "
    "status.hostIPs, status.podIP, status.podIPs, metadata.labels['<key>'] or metadata.annotations['<key>']"
)
RESOURCES = (
    "limits.cpu, limits.memory, limits.ephemeral-storage, requests.cpu, requests.memory, requests.ephemeral-storage, "
    "limits.hugepages-<size> or requests.hugepages-<size>"
)
SIZES = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi or 1Ei"


def variable(value_from: object = None, **fields: object) -> dict[str, object]:
    source = {} if value_from is None else {"valueFrom": value_from}
    return in_container(env=[{"name": "A", **source, **fields}])


def field(path: str, **fields: object) -> dict[str, object]:
    return variable({"fieldRef": {"fieldPath": path, **fields}})


def resource(name: str, **fields: object) -> dict[str, object]:
    return variable({"resourceFieldRef": {"resource": name, **fields}})


def from_file(volumes: list[object] | None = None, **fields: object) -> dict[str, object]:
    ref = {"volumeName": "v", "path": "env", "key": "K", **fields}
    return variable({"fileKeyRef": ref}) | {"volumes": [{"name": "v", "emptyDir": {}}] if volumes is None else volumes}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(variable(value="x"), id="a value"),
        pytest.param(variable(), id="neither value nor source"),
        pytest.param(variable(name="1 odd-name."), id="a name by the relaxed rule"),
        pytest.param(variable({"configMapKeyRef": {"name": "a.b", "key": "K_1.x"}}), id="config map"),
        pytest.param(
            variable({"secretKeyRef": {"name": "a", "key": ".k"}}, value=""), id="secret, with an empty value"
        ),
        pytest.param(field("metadata.labels['app']", apiVersion="v1"), id="a label"),
        pytest.param(field("metadata.annotations['Example.com/A']"), id="an annotation in any case"),
        pytest.param(field("spec.host"), id="the old name of the node"),
        pytest.param(field("status.podIPs"), id="a field"),
        pytest.param(resource("limits.cpu", divisor="1m"), id="cpu in thousandths"),
        pytest.param(resource("requests.memory", divisor="1Mi"), id="memory"),
        pytest.param(resource("limits.hugepages-2Mi", divisor=0), id="huge pages, without a divisor"),
        pytest.param(from_file(), id="from a file"),
        pytest.param(in_container(envFrom=[{"prefix": "P_", "configMapRef": {"name": "a"}}]), id="all of a config map"),
        pytest.param(in_container(envFrom=[{"secretRef": {"name": "a"}}]), id="all of a secret"),
        pytest.param(in_container(env=[{"name": "A"}, {"name": "A"}]), id="a variable twice: the last one counts"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(variable(name=""), ["name: is required"], id="no name"),
        pytest.param(variable(name="A=B"), ["name: must be printable ASCII characters without '='"], id="name"),
        pytest.param(variable({}), [f"valueFrom: must have one of {SOURCES}"], id="no source"),
        pytest.param(
            variable({"fieldRef": {"fieldPath": "metadata.name"}}, value="x"),
            ["valueFrom: cannot be set together with value"],
            id="value and source",
        ),
        pytest.param(
            variable({"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "a", "key": "b"}}),
            ["valueFrom.secretKeyRef: only one source may be given, and fieldRef is"],
            id="two sources",
        ),
        pytest.param(variable({"fieldRef": {}}), ["valueFrom.fieldRef.fieldPath: is required"], id="no field"),
        pytest.param(
            field("metadata.name", apiVersion="v2"), ["valueFrom.fieldRef.apiVersion: must be v1"], id="version"
        ),
        pytest.param(field("metadata.labels"), [f"valueFrom.fieldRef.fieldPath: must be {FIELDS}"], id="all labels"),
        pytest.param(
            field("spec.hosts['a']"),
            ["valueFrom.fieldRef.fieldPath: only metadata.labels and metadata.annotations have keys"],
            id="a key of something else",
        ),
        pytest.param(field("metadata.labels['-']"), [f"valueFrom.fieldRef.fieldPath: the key {NAME}"], id="a bad key"),
        pytest.param(
            variable({"resourceFieldRef": {}}), ["valueFrom.resourceFieldRef.resource: is required"], id="none"
        ),
        pytest.param(
            resource("limits.gpu", divisor="5"), [f"valueFrom.resourceFieldRef.resource: must be {RESOURCES}"], id="gpu"
        ),
        pytest.param(
            resource("limits.cpu", divisor="1k"), ["valueFrom.resourceFieldRef.divisor: must be 1m or 1"], id="cpu in k"
        ),
        pytest.param(
            resource("limits.memory", divisor="1m"),
            [f"valueFrom.resourceFieldRef.divisor: must be {SIZES}"],
            id="memory in thousandths",
        ),
        pytest.param(
            resource("limits.hugepages-1Gi", divisor="2"),
            [f"valueFrom.resourceFieldRef.divisor: must be {SIZES}"],
            id="huge pages by two",
        ),
        pytest.param(
            resource("limits.memory", divisor="x"),
            ["valueFrom.resourceFieldRef.divisor: must be a quantity such as 500m, 2, 1.5 or 4Gi"],
            id="no divisor at all",
        ),
        pytest.param(
            variable({"configMapKeyRef": {}}),
            ["valueFrom.configMapKeyRef.name: is required", "valueFrom.configMapKeyRef.key: is required"],
            id="no config map",
        ),
        pytest.param(
            variable({"secretKeyRef": {"name": "A", "key": ".."}}),
            [f"valueFrom.secretKeyRef.name: {SUBDOMAIN}", "valueFrom.secretKeyRef.key: must not be '.' or '..'"],
            id="bad secret",
        ),
        pytest.param(
            from_file(key="", volumeName="", path=""),
            [f"valueFrom.fileKeyRef.{key}: is required" for key in ("key", "volumeName", "path")],
            id="no file",
        ),
        pytest.param(
            from_file(volumes=[], path="a/../b"),
            [
                "valueFrom.fileKeyRef.path: must not contain '..'",
                "valueFrom.fileKeyRef.volumeName: no volume of the pod has this name",
            ],
            id="file elsewhere",
        ),
        pytest.param(
            from_file(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
            ["valueFrom.fileKeyRef.volumeName: must be a volume of type emptyDir"],
            id="file on the node",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].env[0].{text}" for text in expected]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param({}, [": must have one of configMapRef or secretRef"], id="no source"),
        pytest.param(
            {"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}},
            [".secretRef: only one source may be given, and configMapRef is"],
            id="two sources",
        ),
        pytest.param({"configMapRef": {}}, [".configMapRef.name: is required"], id="no name"),
        pytest.param({"secretRef": {"name": "A"}}, [f".secretRef.name: {SUBDOMAIN}"], id="bad name"),
        pytest.param(
            {"prefix": "=", "secretRef": {"name": "a"}},
            [".prefix: must be printable ASCII characters without '='"],
            id="prefix",
        ),
    ],
)
def test_env_from(source: object, expected: list[str]) -> None:
    assert rules(in_container(envFrom=[source])) == [f"spec.containers[0].envFrom[0]{text}" for text in expected]


def test_hints() -> None:
    assert hints(field("metadata.nmae")) == ["did you mean metadata.name?"]
    assert hints(resource("limit.cpu")) == ["did you mean limits.cpu?"]
    assert hints(variable({"fieldRef": {"fieldPath": "metadata.name"}}, value="x")) == ["remove one of the two"]
