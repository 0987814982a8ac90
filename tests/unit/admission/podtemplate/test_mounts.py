from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.podtemplate.samples import hints, in_container, rules

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUMES = [
    {"name": "work", "emptyDir": {}},
    {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}},
    {"name": "fresh", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}},
    {"name": "image", "image": {"reference": "r"}},
]


def mounts(*mounts: dict[str, object], devices: list[object] | None = None, **fields: object) -> dict[str, object]:
    return in_container(volumeMounts=list(mounts), volumeDevices=devices or [], **fields) | {"volumes": VOLUMES}


def mount(name: str = "work", path: str = "/w", **fields: object) -> dict[str, object]:
    return {"name": name, "mountPath": path, **fields}


def device(name: str = "disk", path: str = "/dev/x") -> dict[str, object]:
    return {"name": name, "devicePath": path}


FIRST = "spec.containers[0].volumeMounts[0]"
PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(mounts(mount(), mount(path="/x")), id="one volume at two places"),
        pytest.param(mounts(mount(path="relative")), id="a relative path"),
        pytest.param(mounts(mount(subPath="a/b"), mount(path="/x", subPathExpr="$(A)/b")), id="part of a volume"),
        pytest.param(mounts(mount(mountPropagation="Bidirectional"), **PRIVILEGED), id="propagation"),
        pytest.param(
            mounts(mount(readOnly=True, recursiveReadOnly="Enabled", mountPropagation="None")), id="recursive"
        ),
        pytest.param(mounts(mount(recursiveReadOnly="Disabled")), id="not recursive"),
        pytest.param(mounts(mount(bindMountOptions=["noexec", "nodev"])), id="options"),
        pytest.param(mounts(mount("image")), id="an image without options"),
        pytest.param(mounts(devices=[device(), device("fresh", "/dev/y")]), id="devices"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(mounts({}), ["name: is required", "mountPath: is required"], id="empty"),
        pytest.param(mounts(mount("data")), ["name: no volume of the pod has this name"], id="no such volume"),
        pytest.param(mounts(mount(subPath="/a")), ["subPath: must be a relative path"], id="absolute part"),
        pytest.param(mounts(mount(subPath="a/..")), ["subPath: must not contain '..'"], id="backsteps"),
        pytest.param(
            mounts(mount(subPath="a", subPathExpr="../b")),
            ["subPathExpr: must not contain '..'", "subPathExpr: cannot be set together with subPath"],
            id="two kinds of part",
        ),
        pytest.param(
            mounts(mount(mountPropagation="")),
            ["mountPropagation: must be None, HostToContainer or Bidirectional"],
            id="propagation",
        ),
        pytest.param(
            mounts(mount(mountPropagation="Bidirectional")),
            ["mountPropagation: only a privileged container may have Bidirectional"],
            id="propagation to the node",
        ),
        pytest.param(
            mounts(mount(recursiveReadOnly="Yes")),
            ["recursiveReadOnly: must be Disabled, IfPossible or Enabled"],
            id="recursion",
        ),
        pytest.param(
            mounts(mount(recursiveReadOnly="IfPossible", mountPropagation="HostToContainer")),
            ["recursiveReadOnly: needs readOnly: true", "recursiveReadOnly: needs mountPropagation None"],
            id="recursion against the rest",
        ),
        pytest.param(
            mounts(mount(bindMountOptions=["exec", "nodev", "nodev"])),
            [
                "bindMountOptions[0]: must be noexec, nodev or nosuid",
                f"bindMountOptions[2]: this option is already used at {FIRST}.bindMountOptions[1]",
            ],
            id="options",
        ),
        pytest.param(
            mounts(mount("image", bindMountOptions=["nodev"])),
            ["bindMountOptions: cannot be used with an image volume"],
            id="options of an image",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].volumeMounts[0].{text}" for text in expected]


def test_duplicate_paths() -> None:
    at = "spec.containers[0].volumeMounts"
    assert rules(mounts(mount(), mount("image"))) == [
        f"{at}[1].mountPath: this path is already used at {at}[0].mountPath"
    ]


def test_a_colon_is_a_warning() -> None:
    assert rules(mounts(mount(path="C:/x"))) == [
        "warning: spec.containers[0].volumeMounts[0].mountPath: container runtimes refuse a path with ':' in it"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(mounts(devices=[{}]), ["name: is required", "devicePath: is required"], id="empty"),
        pytest.param(
            mounts(devices=[device("data")]), ["name: no volume of the pod has this name"], id="no such volume"
        ),
        pytest.param(
            mounts(devices=[device("work")]),
            ["name: must be a volume of type persistentVolumeClaim or ephemeral"],
            id="not a disk",
        ),
        pytest.param(mounts(devices=[device(path="/dev/../x")]), ["devicePath: must not contain '..'"], id="backsteps"),
        pytest.param(
            mounts(mount("disk"), devices=[device()]),
            ["name: this volume is already used at spec.containers[0].volumeMounts[0]"],
            id="disk and directory at once",
        ),
        pytest.param(
            mounts(mount(path="/dev/x"), devices=[device()]),
            ["devicePath: this path is already used at spec.containers[0].volumeMounts[0].mountPath"],
            id="at the place of a mount",
        ),
    ],
)
def test_devices(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].volumeDevices[0].{text}" for text in expected]


def test_hints() -> None:
    assert hints(mounts(mount("wrok"))) == ["did you mean work?"]
    assert hints(mounts(mount("datasets"))) == ["add a volume datasets to the volumes of the pod"]
