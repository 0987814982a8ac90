from __future__ import annotations

import pytest

from tests.unit.admission.podtemplate.samples import hints, in_volume, pod, rules

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
SUBDOMAIN = "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
MODE = "must be from 0 to 511, which is 0777 in octal"
ID = "must be from 0 to 2147483647"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
KINDS = "DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice or BlockDevice"
NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"
FIELD = {"fieldPath": "metadata.labels"}
CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "keyPath": "k"}


def projected(*sources: object, **fields: object) -> dict[str, object]:
    return in_volume(projected={"sources": list(sources), **fields})


def ephemeral(metadata: object = None, spec: object = CLAIM) -> dict[str, object]:
    return in_volume(ephemeral={"volumeClaimTemplate": {"metadata": metadata, "spec": spec}})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(in_volume(emptyDir={"medium": "Memory", "sizeLimit": "1Gi", "mode": 0o1777}), id="empty"),
        pytest.param(in_volume(emptyDir=None), id="empty by null"),
        pytest.param(
            in_volume(configMap={"name": "a", "items": [{"key": "k", "path": "a/b", "mode": 0o644}]}), id="config"
        ),
        pytest.param(in_volume(secret={"secretName": "a", "defaultMode": 0o400, "defaultUser": 0}), id="secret"),
        pytest.param(in_volume(hostPath={"path": "/a", "type": ""}), id="node, of any type"),
        pytest.param(in_volume(hostPath={"path": "/a", "type": "Socket"}), id="socket of the node"),
        pytest.param(in_volume(persistentVolumeClaim={"claimName": "Any Name"}), id="claim"),
        pytest.param(in_volume(nfs={"server": "s", "path": "/e"}), id="nfs"),
        pytest.param(in_volume(csi={"driver": "CSI.example.com", "nodePublishSecretRef": {"name": "s"}}), id="csi"),
        pytest.param(in_volume(image={"reference": "r", "pullPolicy": ""}), id="image"),
        pytest.param(ephemeral({"labels": {"a": "b"}, "creationTimestamp": None}), id="ephemeral"),
        pytest.param(
            in_volume(
                downwardAPI={
                    "items": [
                        {"path": "a", "fieldRef": FIELD},
                        {"path": "b", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
                    ]
                }
            ),
            id="downward",
        ),
        pytest.param(
            projected(
                {"secret": {"name": "s", "items": [{"key": "a", "path": "a"}]}},
                {"configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
                {"downwardAPI": {"items": [{"path": "c", "fieldRef": FIELD}]}},
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 600}},
                {"clusterTrustBundle": {"name": "n", "path": "d"}},
                {"clusterTrustBundle": {"name": "example.com:s:n", "path": "e"}},
                {"clusterTrustBundle": {"signerName": "example.com/s", "labelSelector": {}, "path": "f"}},
                {"podCertificate": {**CERTIFICATE, "userAnnotations": {"A.b/C": "x"}, "maxExpirationSeconds": 3600}},
                {},
            ),
            id="projected",
        ),
        # What is wrong in these four, only the API server says.
        pytest.param(in_volume(iscsi={"iqn": "x", "lun": 256, "chapAuthSession": True}), id="iscsi"),
        pytest.param(in_volume(fc={"targetWWNs": ["a"], "wwids": ["b"], "lun": 256}), id="fc"),
        pytest.param(in_volume(flexVolume={"options": {"kubernetes.io/a": "b"}}), id="flex"),
        pytest.param(in_volume(azureDisk={"diskURI": "x", "kind": "", "cachingMode": ""}), id="azure disk"),
        pytest.param(in_volume(cinder={"volumeID": "a", "secretRef": {"name": "s"}}), id="cinder"),
        pytest.param(in_volume(cinder={"volumeID": "a"}), id="cinder without a secret"),
        pytest.param(in_volume(gitRepo={"repository": "r", "directory": "a/b"}), id="git"),
        pytest.param(in_volume(gcePersistentDisk={"pdName": "a", "partition": 255}), id="gce"),
        pytest.param(in_volume(azureFile={"secretName": "a", "shareName": "b"}), id="azure file"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


def test_a_volume_without_a_source_is_a_warning() -> None:
    spec = pod(volumes=[{"name": "a"}])
    assert rules(spec) == ["warning: spec.volumes[0].name: has no source, so it will be an empty directory"]
    assert hints(spec) == ["write emptyDir: {} if you want one"]


def test_a_removed_volume_type_is_a_warning() -> None:
    kinds = ("glusterfs", "flocker", "rbd", "cephfs", "quobyte", "photonPersistentDisk", "storageos", "scaleIO")
    message = "this volume type no longer exists in Kubernetes; a pod with it never starts"
    assert [rules(in_volume(**{kind: {}})) for kind in kinds] == [
        [f"warning: spec.volumes[0].{kind}: {message}"] for kind in kinds
    ]


def test_two_volumes_of_one_name() -> None:
    assert rules(pod(volumes=[{"name": "a", "emptyDir": {}}] * 2)) == [
        "spec.volumes[1].name: the name of a volume is already used at spec.volumes[0].name"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(in_volume(name="", emptyDir={}), ["name: is required"], id="no name"),
        pytest.param(in_volume(name="a.b", emptyDir={}), [f"name: {LABEL}"], id="name"),
        pytest.param(
            in_volume(emptyDir={}, hostPath={"path": "/a"}, nfs={}),
            [
                "hostPath: only one source may be given, and emptyDir is",
                "nfs: only one source may be given, and emptyDir is",
            ],
            id="three sources",
        ),
        pytest.param(
            in_volume(emptyDir={"sizeLimit": "-1", "mode": 0o2000}),
            ["emptyDir.sizeLimit: must be 0 or more", "emptyDir.mode: must be from 0 to 1023, which is 01777 in octal"],
            id="empty",
        ),
        pytest.param(
            in_volume(emptyDir={"sizeLimit": "x"}),
            ["emptyDir.sizeLimit: must be a quantity such as 500m, 2, 1.5 or 4Gi"],
            id="size of the empty",
        ),
        pytest.param(
            in_volume(configMap={"defaultMode": 644, "defaultUser": -1, "items": [{"mode": -1, "user": -1}]}),
            [
                "configMap.name: is required",
                f"configMap.defaultMode: {MODE}",
                f"configMap.defaultUser: {ID}",
                "configMap.items[0].key: is required",
                "configMap.items[0].path: is required",
                f"configMap.items[0].mode: {MODE}",
                f"configMap.items[0].user: {ID}",
            ],
            id="config map",
        ),
        pytest.param(
            in_volume(secret={"items": [{"key": "k", "path": path} for path in ("/a", "a/../b", "..a", "../a", "..")]}),
            [
                "secret.secretName: is required",
                "secret.items[0].path: must be a relative path",
                "secret.items[1].path: must not contain '..'",
                "secret.items[2].path: must not begin with '..'",
                "secret.items[3].path: must not contain '..'",
                "secret.items[4].path: must not contain '..'",
            ],
            id="secret",
        ),
        pytest.param(
            in_volume(hostPath={"path": "/a/..", "type": "Folder"}),
            ["hostPath.path: must not contain '..'", f"hostPath.type: must be {KINDS}"],
            id="node",
        ),
        pytest.param(in_volume(persistentVolumeClaim={}), ["persistentVolumeClaim.claimName: is required"], id="claim"),
        pytest.param(
            in_volume(nfs={"path": "e"}), ["nfs.server: is required", "nfs.path: must be an absolute path"], id="nfs"
        ),
        pytest.param(
            in_volume(csi={"driver": "a" * 64, "nodePublishSecretRef": {}}),
            ["csi.driver: must be at most 63 characters, this has 64", "csi.nodePublishSecretRef.name: is required"],
            id="csi",
        ),
        pytest.param(in_volume(csi={"driver": "a_b"}), [f"csi.driver: {SUBDOMAIN}"], id="csi driver"),
        pytest.param(
            in_volume(image={"pullPolicy": "Often"}),
            ["image.reference: is required", "image.pullPolicy: must be Always, IfNotPresent or Never"],
            id="image",
        ),
        pytest.param(in_volume(ephemeral={}), ["ephemeral.volumeClaimTemplate: is required"], id="ephemeral"),
        pytest.param(
            ephemeral({"name": "x", "labels": {"a": "b c"}}),
            [
                f"ephemeral.volumeClaimTemplate.metadata.labels.a: {NAME}",
                "ephemeral.volumeClaimTemplate.metadata.name: cannot be set: only labels and annotations can",
            ],
            id="metadata of an ephemeral volume",
        ),
        pytest.param(
            in_volume(downwardAPI={"defaultMode": 512, "items": [{"path": "a"}]}),
            [f"downwardAPI.defaultMode: {MODE}", "downwardAPI.items[0]: must have one of fieldRef or resourceFieldRef"],
            id="downward, of nothing",
        ),
        pytest.param(
            in_volume(downwardAPI={"items": [{"path": "a", "fieldRef": FIELD, "resourceFieldRef": {}}]}),
            ["downwardAPI.items[0].resourceFieldRef: cannot be set together with fieldRef"],
            id="downward, of two",
        ),
        pytest.param(
            in_volume(downwardAPI={"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}),
            ["downwardAPI.items[0].resourceFieldRef.containerName: is required"],
            id="downward, of no container",
        ),
        pytest.param(
            in_volume(downwardAPI={"items": [{"path": "a", "fieldRef": "x"}]}), [], id="a shape reported elsewhere"
        ),
        pytest.param(
            in_volume(cinder={"secretRef": {}}),
            ["cinder.volumeID: is required", "cinder.secretRef.name: is required"],
            id="cinder",
        ),
        pytest.param(
            in_volume(gitRepo={"directory": "../a"}),
            ["gitRepo.repository: is required", "gitRepo.directory: must not contain '..'"],
            id="git",
        ),
        pytest.param(
            in_volume(awsElasticBlockStore={"partition": 256}),
            ["awsElasticBlockStore.volumeID: is required", "awsElasticBlockStore.partition: must be from 0 to 255"],
            id="aws",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.volumes[0].{text}" for text in expected]


SIGNER = "must be a domain and a name, such as example.com/my-signer"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            {"secret": {"name": "a"}, "configMap": {"name": "b"}},
            [": only one source may be given, not secret and configMap"],
            id="two sources",
        ),
        pytest.param({"secret": {}}, [".secret.name: is required"], id="secret"),
        pytest.param(
            {"configMap": {"name": "c", "items": [{}]}},
            [".configMap.items[0].key: is required", ".configMap.items[0].path: is required"],
            id="config map",
        ),
        pytest.param(
            {"downwardAPI": {"items": [{"path": "a"}]}},
            [".downwardAPI.items[0]: must have one of fieldRef or resourceFieldRef"],
            id="downward",
        ),
        pytest.param(
            {"serviceAccountToken": {"expirationSeconds": 599, "user": -1}},
            [
                ".serviceAccountToken.expirationSeconds: must be from 600 to 4294967296",
                ".serviceAccountToken.path: is required",
                f".serviceAccountToken.user: {ID}",
            ],
            id="token",
        ),
        pytest.param(
            {"clusterTrustBundle": {"path": "p"}},
            [".clusterTrustBundle: must have exactly one of name and signerName"],
            id="bundle of none",
        ),
        pytest.param(
            {"clusterTrustBundle": {"path": "p", "name": "A", "labelSelector": {}}},
            [
                f".clusterTrustBundle.name: {SUBDOMAIN}",
                ".clusterTrustBundle.labelSelector: cannot be set together with name",
            ],
            id="bundle by name",
        ),
        pytest.param(
            {"clusterTrustBundle": {"path": "p", "name": "example.com:s:"}},
            [f".clusterTrustBundle.name: {SUBDOMAIN}"],
            id="bundle of a signer, without a name of its own",
        ),
        pytest.param(
            {"clusterTrustBundle": {"signerName": "", "path": "/p", "user": -1}},
            [
                ".clusterTrustBundle.signerName: is required",
                ".clusterTrustBundle.path: must be a relative path",
                f".clusterTrustBundle.user: {ID}",
            ],
            id="bundle of a signer without a name",
        ),
        pytest.param(
            {"podCertificate": {"signerName": "a/b", "keyType": "DSA", "user": -1}},
            [
                f".podCertificate.signerName: {SIGNER}",
                ".podCertificate.keyType: must be RSA3072, RSA4096, ECDSAP256, ECDSAP384, ECDSAP521 or ED25519",
                f".podCertificate.user: {ID}",
                ".podCertificate: must have at least one of credentialBundlePath, keyPath or certificateChainPath",
            ],
            id="certificate",
        ),
        pytest.param(
            {"podCertificate": {**CERTIFICATE, "userAnnotations": {"a": "b", "-/a": ""}, "keyPath": "/k"}},
            [
                ".podCertificate.userAnnotations.a: the key must have a domain before it, such as example.com/key",
                ".podCertificate.userAnnotations[-/a]: the key must have a domain before it, such as example.com/key",
                ".podCertificate.keyPath: must be a relative path",
            ],
            id="annotations of a certificate",
        ),
        pytest.param(
            {"podCertificate": {**CERTIFICATE, "maxExpirationSeconds": 91 * 86400 + 1}},
            [".podCertificate.maxExpirationSeconds: must be from 3600 to 7862400"],
            id="certificate for too long",
        ),
        pytest.param(
            {"podCertificate": {**CERTIFICATE, "signerName": "kubernetes.io/s", "maxExpirationSeconds": 86401}},
            [".podCertificate.maxExpirationSeconds: must be from 3600 to 86400"],
            id="certificate of kubernetes for too long",
        ),
        pytest.param(
            {"podCertificate": {**CERTIFICATE, "signerName": f"{'a.' * 127}a/s"}},
            [".podCertificate.signerName: must be at most 253 characters, this has 255"],
            id="long signer",
        ),
        pytest.param({"secret": "x"}, [], id="a shape reported elsewhere"),
    ],
)
def test_projections(source: object, expected: list[str]) -> None:
    assert rules(projected(source)) == [f"spec.volumes[0].projected.sources[0]{text}" for text in expected]


def test_one_file_from_two_sources() -> None:
    spec = projected(
        {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
        {"clusterTrustBundle": {"name": "n", "path": "p"}},
        {"podCertificate": {**CERTIFICATE, "keyPath": "p"}},
    )
    first = "spec.volumes[0].projected.sources[0].secret.items[0].path"
    assert rules(spec) == [
        f"spec.volumes[0].projected.sources[1].clusterTrustBundle.path: this path is already used at {first}",
        f"spec.volumes[0].projected.sources[2].podCertificate.keyPath: this path is already used at {first}",
    ]


def test_hint_at_octal() -> None:
    assert hints(in_volume(secret={"secretName": "a", "defaultMode": 644})) == ["write it in octal: 0644"]
