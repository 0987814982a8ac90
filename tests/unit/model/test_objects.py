from __future__ import annotations

from pumice.model.job import VolumeSpec
from pumice.model.naming import claim, claim_volume
from pumice.model.objects import KeyPair, Once, claim_names, claims, owned, owner_reference, with_claims
from tests.builders import NAMESPACE, OWNER, UID, a_container, a_job


def test_the_owner_is_the_job() -> None:
    assert owner_reference(a_job()) == OWNER


def test_an_owned_object() -> None:
    assert owned(a_job(), "v1", "ConfigMap", "x", {"data": {"a": "b"}}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": NAMESPACE, "ownerReferences": [OWNER]},
        "data": {"a": "b"},
    }


def test_a_secret_is_created_with_keys_of_the_engine() -> None:
    once = Once(
        {"kind": "Secret", "stringData": {"config": "c"}}, lambda keys: {"private": keys("rsa").private, "config": "x"}
    )
    made = once.created_with(lambda kind: KeyPair(f"{kind} private", "public"))
    assert made == {"kind": "Secret", "stringData": {"private": "rsa private", "config": "c"}}
    assert once.manifest == {"kind": "Secret", "stringData": {"config": "c"}}
    assert not once.given


SPEC = {"accessModes": ["ReadWriteOnce"]}
MADE = claim("train", UID, 1)
JOB = a_job(
    volumes=[
        VolumeSpec(mount_path="/data", volume_claim_name="data"),
        VolumeSpec(mount_path="/made", volume_claim=SPEC),
        VolumeSpec(mount_path="/more", volume_claim_name="data"),
    ]
)


def test_claims_with_a_spec_are_created() -> None:
    assert claim_names(JOB) == ["data", MADE]
    assert list(claims(JOB)) == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": MADE, "namespace": NAMESPACE, "ownerReferences": [OWNER]},
            "spec": SPEC,
        }
    ]


def test_a_name_beside_a_description_is_the_claim_s() -> None:
    (made,) = claims(a_job(volumes=[VolumeSpec(mount_path="/x", volume_claim_name="known", volume_claim=SPEC)]))
    assert made["metadata"]["name"] == "known"


def test_defect_31_init_containers_and_second_paths_are_mounted() -> None:
    """Volcano mounts in main containers only, and one claim at one path only."""
    spec = {"containers": [a_container()], "initContainers": [a_container("init")]}
    data, made = claim_volume("train", UID, 0), claim_volume("train", UID, 1)
    mounts = [
        {"name": data, "mountPath": "/data"},
        {"name": data, "mountPath": "/more"},
        {"name": made, "mountPath": "/made"},
    ]
    assert with_claims(JOB, spec) == {
        "containers": [a_container(volumeMounts=mounts)],
        "initContainers": [a_container("init", volumeMounts=mounts)],
        "volumes": [
            {"name": data, "persistentVolumeClaim": {"claimName": "data"}},
            {"name": made, "persistentVolumeClaim": {"claimName": MADE}},
        ],
    }
    assert spec == {"containers": [a_container()], "initContainers": [a_container("init")]}


def test_without_volumes_nothing_changes() -> None:
    spec = {"containers": [a_container()]}
    assert with_claims(a_job(), spec) is spec
    assert list(claims(a_job())) == []
