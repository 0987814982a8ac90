from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.container_env import ConfigSources
from pumice.engines.local.sandbox.specs import Mount, Tmpfs
from pumice.engines.local.volumes.volume_plan import (
    Entry,
    HostPath,
    MakeDirectory,
    SubPath,
    Volumes,
    WriteFiles,
    pod_directory,
    shared_directory,
    volume_mounts,
)
from tests.builders import literal
from tests.unit.engines.local.pod_values import FACTS, a_pod

SCRATCH = Path("/scratch")
OWN = pod_directory(SCRATCH, FACTS.uid) / "volumes/v"
SOURCES = ConfigSources(
    config_maps={"c": {"a": b"1", "b": b"2"}},
    binary={"c": {"x": b"\xff"}},
    secrets={"s": {"key": b"k"}},
    claims={"data": Path("/claims/data")},
    real_paths={"/x": "/x"},
)


def mounted(volume: dict[str, Any], mount: dict[str, Any] | None = None, **container: Any) -> Volumes:
    """Plan a container that mounts the volume `v`, at /m by default."""
    mounts = [{"name": "v", "mountPath": "/m", **(mount or {})}]
    own = {"name": "main", "volumeMounts": mounts, **container}
    return volume_mounts(own, a_pod(own, volumes=[{"name": "v", **volume}]), FACTS, SOURCES, SCRATCH)


def messages(volumes: Volumes) -> list[str]:
    return [("! " if problem.fatal else "") + problem.message for problem in volumes.problems]


def written(volumes: Volumes) -> dict[str, Entry]:
    [step] = volumes.steps
    assert isinstance(step, WriteFiles)
    [mount] = volumes.mounts
    assert mount == Mount(str(step.path), "/m", read_only=True)
    return dict(step.files)


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        pytest.param(
            {"configMap": {"name": "c"}}, {"a": Entry(b"1"), "b": Entry(b"2"), "x": Entry(b"\xff")}, id="config map"
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "d/e"}], "defaultMode": 0o400}},
            {"d/e": Entry(b"1", 0o400)},
            id="items",
        ),
        pytest.param(
            {
                "secret": {
                    "secretName": "s",
                    "defaultMode": 0o600,
                    "items": [{"key": "key", "path": "k", "mode": 0o440}],
                }
            },
            {"k": Entry(b"k", 0o440)},
            id="mode of an item",
        ),
        pytest.param({"secret": {"secretName": "s"}}, {"key": Entry(b"k", 0o644)}, id="secret"),
        pytest.param({"secret": {"secretName": "x", "optional": True}}, {}, id="optional secret"),
        pytest.param(
            {"configMap": {"name": "c", "optional": True, "items": [{"key": "none", "path": "p"}]}},
            {},
            id="optional key",
        ),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {"path": "cpu", "mode": 0o400, "resourceFieldRef": {"resource": "limits.cpu"}},
                    ]
                }
            },
            {"labels": Entry(b'a.example/x="1"\nb="2"'), "cpu": Entry(b"4", 0o400)},
            id="downward",
        ),
        pytest.param(
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "c", "items": [{"key": "a", "path": "p"}]}},
                        {"secret": {"name": "s", "items": [{"key": "key", "path": "p"}, {"key": "key", "path": "q"}]}},
                        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                        {"downwardAPI": None},
                    ],
                }
            },
            {"p": Entry(b"k", 0o440), "q": Entry(b"k", 0o440), "n": Entry(b"train-worker-0", 0o440)},
            id="projected",
        ),
    ],
)
def test_files(volume: dict[str, Any], files: dict[str, Entry]) -> None:
    volumes = mounted(volume)
    assert written(volumes) == files
    assert volumes.problems == ()


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        pytest.param({"configMap": {"name": "x"}}, "! volume v: there is no ConfigMap x", id="config map"),
        pytest.param({"secret": {"secretName": "x"}}, "! volume v: there is no Secret x", id="secret"),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            "! volume v: ConfigMap c has no key k",
            id="key",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "../p"}]}},
            "! volume v: ../p: must be a path within the volume",
            id="path with ..",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "/p"}]}},
            "! volume v: /p: must be a path within the volume",
            id="absolute path",
        ),
        pytest.param(
            {"configMap": {"name": "c", "items": [{"key": "a", "path": ""}]}},
            "! volume v: : must be a path within the volume",
            id="no path",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "x"}}]}},
            "! volume v: p: x: a pod has no such field",
            id="field",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "p"}]}}, "! volume v: p: None: a pod has no such field", id="no field"
        ),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            "volume v: serviceAccountToken (token) is left out: there is no API server to ask for it",
            id="token",
        ),
        pytest.param(
            {"projected": {"sources": [{"clusterTrustBundle": {}}]}},
            "volume v: clusterTrustBundle is left out: there is no API server to ask for it",
            id="bundle",
        ),
    ],
)
def test_missing_files(volume: dict[str, Any], problem: str) -> None:
    volumes = mounted(volume)
    assert messages(volumes) == [problem]
    assert written(volumes) == {}


def test_files_that_all_pods_share_have_one_directory() -> None:
    def path(volume: dict[str, Any]) -> Path:
        [step] = mounted(volume).steps
        assert isinstance(step, WriteFiles)
        return step.path

    shared = path({"configMap": {"name": "c"}})
    assert shared.parent == shared_directory(SCRATCH)
    assert path({"configMap": {"name": "c"}}) == shared
    assert path({"configMap": {"name": "c", "defaultMode": 0o400}}) != shared
    assert path({"projected": {"sources": [{"configMap": {"name": "c"}}]}}).parent == shared_directory(SCRATCH)
    assert path({"downwardAPI": {}}) == OWN
    assert path({"projected": {"sources": [{"downwardAPI": {}}]}}) == OWN


@pytest.mark.parametrize(
    ("volume", "mount", "step", "expected"),
    [
        pytest.param({"emptyDir": {}}, {}, MakeDirectory(OWN, 0o777), Mount(str(OWN), "/m"), id="empty"),
        pytest.param({}, {}, MakeDirectory(OWN, 0o777), Mount(str(OWN), "/m"), id="no source"),
        pytest.param({"emptyDir": {"mode": 0o700}}, {}, MakeDirectory(OWN, 0o700), Mount(str(OWN), "/m"), id="mode"),
        pytest.param(
            {"emptyDir": None},
            {"readOnly": True},
            MakeDirectory(OWN, 0o777),
            Mount(str(OWN), "/m", True),
            id="read-only",
        ),
        pytest.param(
            {"hostPath": {"path": "/data/../x", "type": "Directory"}},
            {},
            HostPath(Path("/x"), "Directory", "v"),
            Mount("/x", "/m", volume="/"),
            id="host path",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "data"}},
            {},
            MakeDirectory(Path("/claims/data"), 0o777),
            Mount("/claims/data", "/m"),
            id="claim",
        ),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {},
            MakeDirectory(Path("/claims/data"), 0o777),
            Mount("/claims/data", "/m", True),
            id="read-only claim",
        ),
    ],
)
def test_directories(volume: dict[str, Any], mount: dict[str, Any], step: object, expected: Mount) -> None:
    assert mounted(volume, mount) == Volumes((expected,), (step,))  # type: ignore[arg-type] # one of the steps


def test_memory() -> None:
    volumes = mounted({"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}, {"mountPath": "/dev/shm"})
    assert volumes == Volumes((Tmpfs("/dev/shm", "v", 64 << 20, 0o777),))


@pytest.mark.parametrize("limit", [None, "0", "much"])
def test_memory_without_a_limit(limit: str | None) -> None:
    source = {"medium": "Memory", **({"sizeLimit": limit} if limit else {})}
    assert mounted({"emptyDir": source}).mounts == (Tmpfs("/m", "v", None, 0o777),)


@pytest.mark.parametrize("read_only", [True, False], ids=["read-only", "writable"])
def test_memory_is_shared_by_containers(read_only: bool) -> None:
    own = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/m", "readOnly": read_only}]}
    other = {"name": "other", "volumeMounts": [{"name": "v", "mountPath": "/n"}]}
    pod = a_pod(own, other, volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    volumes = volume_mounts(own, pod, FACTS, SOURCES, SCRATCH)
    assert volumes == Volumes((Tmpfs("/m", "v", None, 0o777, read_only),))


def test_fs_group() -> None:
    own = {"name": "main", "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("v", "w")]}
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = a_pod(own, volumes=volumes, securityContext={"fsGroup": 7})
    steps = (MakeDirectory(OWN, 0o777, 7), MakeDirectory(Path("/claims/data"), 0o777, 7))
    assert volume_mounts(own, pod, FACTS, SOURCES, SCRATCH).steps == steps


def test_memory_is_on_disk_if_parts_of_it_are_mounted() -> None:
    own = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/m"}]}
    other = {"name": "other", "volumeMounts": [{"name": "v", "mountPath": "/n", "subPath": "n"}]}
    pod = a_pod(own, other, volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": 1}}])
    volumes = volume_mounts(own, pod, FACTS, SOURCES, SCRATCH)
    assert volumes.mounts == (Mount(str(OWN), "/m"),)
    assert messages(volumes) == ["volume v: medium Memory: is on disk, because parts of it are mounted"]


@pytest.mark.parametrize(
    ("volume", "problem"),
    [
        pytest.param({"emptyDir": {"medium": "HugePages"}}, "volume v: medium HugePages: is on disk", id="huge pages"),
        pytest.param(
            {"nfs": {"server": "x", "path": "/"}},
            "volume v: nfs is not supported; an empty directory is mounted instead",
            id="nfs",
        ),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {}}},
            "volume v: is a plain directory, so its claim's size and storage class have no effect",
            id="ephemeral",
        ),
    ],
)
def test_volumes_that_become_an_empty_directory(volume: dict[str, Any], problem: str) -> None:
    volumes = mounted(volume)
    assert volumes.mounts == (Mount(str(OWN), "/m"),)
    assert messages(volumes) == [problem]


@pytest.mark.parametrize(
    ("mount", "within"),
    [
        pytest.param({"subPath": "a/./b/"}, "a/b", id="plain"),
        pytest.param({"subPathExpr": "$(POD)/x"}, "train-worker-0/x", id="expression"),
        pytest.param({"subPathExpr": "$$(POD)"}, "$(POD)", id="escaped"),
    ],
)
def test_sub_paths(mount: dict[str, Any], within: str) -> None:
    variable = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    volumes = mounted({"emptyDir": {}}, mount, env=[variable])
    assert volumes.mounts == (Mount(f"{OWN}/{within}", "/m", volume=str(OWN)),)
    assert volumes.steps == (MakeDirectory(OWN, 0o777), SubPath(OWN, within, "v"))


@pytest.mark.parametrize(
    ("volume", "mount", "problem"),
    [
        pytest.param(
            {},
            {"subPath": "../x"},
            "! volumeMounts: v: subPath: ../x: must be a path within the volume",
            id="path with ..",
        ),
        pytest.param({}, {"subPath": "/x"}, "! volumeMounts: v: subPath: /x: must be", id="absolute"),
        pytest.param({}, {"subPathExpr": "$(UP)"}, "! volumeMounts: v: subPath: ../..: must be", id="variable with .."),
        pytest.param(
            {}, {"subPathExpr": "$(X)"}, "! volumeMounts: v: subPathExpr: there is no variable X", id="no variable"
        ),
        pytest.param({}, {"name": "w"}, "! volumeMounts: the pod has no volume w", id="no volume"),
        pytest.param({}, {"mountPath": "/"}, "! volumeMounts: v: cannot mount over /", id="root"),
        pytest.param({}, {"mountPath": "/a/.."}, "! volumeMounts: v: cannot mount over /", id="normalized root"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "x"}},
            {},
            "! volume v: there is no PersistentVolumeClaim x",
            id="claim",
        ),
    ],
)
def test_invalid_mounts(volume: dict[str, Any], mount: dict[str, Any], problem: str) -> None:
    volumes = mounted(volume, mount, env=literal(UP="../.."))
    assert volumes.mounts == ()
    assert [text.startswith(problem) for text in messages(volumes)] == [True]


def test_outer_mounts_come_first() -> None:
    paths = ["/a/b/c", "/a-b", "/a", "relative", "/a/b"]
    own = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": path} for path in paths]}
    pod = a_pod(own, volumes=[{"name": "v", "hostPath": {"path": "/x"}}])
    volumes = volume_mounts(own, pod, FACTS, SOURCES, SCRATCH)
    assert [mount.target for mount in volumes.mounts] == ["/a", "/a/b", "/a/b/c", "/a-b", "/relative"]
    assert volumes.steps == (HostPath(Path("/x"), "", "v"),)


def test_no_mounts() -> None:
    assert volume_mounts({}, {}, FACTS, SOURCES, SCRATCH) == Volumes()
