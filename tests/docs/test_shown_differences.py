"""Differences from Volcano that show only in a whole Job, from its file to its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.client.job_files import NO_UID, JobFile, as_stored, load, render
from pumice.model.objects import KeyPair, Once
from pumice.plugins.shaping import owned_objects
from pumice.runtime.offline_context import offline_context
from tests.meta.tree import ROOT

MIDDLE = "not a real one"
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{MIDDLE}\n-----END RSA PRIVATE KEY-----"


def _job(name: str = "shown", tasks: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
    return {**document, "spec": {"tasks": tasks or [_task("worker", 2)], **spec}}


def _task(name: str, replicas: int, **fields: Any) -> dict[str, Any]:
    pod = {
        "initContainers": [{"name": "first", "image": "busybox:1.36.1"}],
        "containers": [{"name": "main", "image": "busybox:1.36.1"}],
        "restartPolicy": "Never",
    }
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **fields}


def _loaded(document: dict[str, Any], folder: Path) -> JobFile:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(str(file), offline_context())


def _rendered(loaded: JobFile, uid: str = NO_UID, *, show_secrets: bool = False) -> list[dict[str, Any]]:
    [entry] = loaded.jobs
    return list(render(entry.admitted, uid=uid, show_secrets=show_secrets))


def _of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


CLAIMED_TWICE = _job(
    volumes=[
        {"mountPath": "/a", "volumeClaimName": "data"},
        {"mountPath": "/b", "volumeClaimName": "data"},
        {
            "mountPath": "/c",
            "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1}}},
        },
    ]
)


def test_defect_31_claims_reach_init_containers_and_every_path(tmp_path: Path) -> None:
    for pod in _of_kind(_rendered(_loaded(CLAIMED_TWICE, tmp_path)), "Pod"):
        assert len(pod["spec"]["volumes"]) == 2
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/a", "/b", "/c"]
            assert container["volumeMounts"][0]["name"] == container["volumeMounts"][1]["name"]


def test_a_volume_of_the_job_wins_over_the_files_of_svc(tmp_path: Path) -> None:
    volumes = [{"mountPath": "/etc/volcano", "volumeClaimName": "data"}]
    loaded = _loaded(_job(plugins={"svc": []}, volumes=volumes), tmp_path)
    assert loaded.is_good
    for pod in _of_kind(_rendered(loaded), "Pod"):
        claims = [volume["name"] for volume in pod["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert container["volumeMounts"] == [{"name": claims[0], "mountPath": "/etc/volcano"}]


def test_claims_and_their_volumes_are_named_by_the_job_and_not_by_chance(tmp_path: Path) -> None:
    loaded = _loaded(CLAIMED_TWICE, tmp_path)
    assert _rendered(loaded) == _rendered(loaded)
    [first], [second] = (_of_kind(_rendered(loaded, uid), "PersistentVolumeClaim") for uid in ("uid-1", "uid-2"))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    volumes = [pod["spec"]["volumes"] for pod in _of_kind(_rendered(loaded), "Pod")]
    assert volumes[0] == volumes[1]


def test_defect_33_one_mistake_does_not_hide_another(tmp_path: Path) -> None:
    job = _job(tasks=[_task("a", 1), _task("a", 1), _task("b", 1, minAvailable=2)], minSuccess=9)
    paths = [report.path for report in _loaded(job, tmp_path).reports]
    assert paths == ["spec.minSuccess", "spec.tasks[1].name", "spec.tasks[2].minAvailable"]


def test_a_field_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    task = _task("a", 1, replica=2)
    task["template"]["spec"]["containers"][0]["imagePulPolicy"] = "Always"
    reports = _loaded(_job(tasks=[task]), tmp_path).reports
    assert [(report.path, report.message) for report in reports] == [
        ("spec.tasks[0].replica", "unknown field"),
        ("spec.tasks[0].template.spec.containers[0].imagePulPolicy", "unknown field"),
    ]


def test_a_config_map_that_no_cluster_would_store_is_an_error(tmp_path: Path) -> None:
    reports = _loaded(_job(tasks=[_task("worker", 30_000)], plugins={"svc": []}), tmp_path).reports
    [error] = [report for report in reports if report.is_error]
    assert error.message.startswith("ConfigMap shown-svc would be larger than 1 MiB: ")


def test_given_keys_are_shown_only_on_demand(tmp_path: Path) -> None:
    job = _job(plugins={"ssh": [f"--ssh-private-key={KEY}", "--ssh-public-key=ssh-rsa AAAA"]})
    loaded = _loaded(job, tmp_path)
    assert MIDDLE not in str(_rendered(loaded))
    assert MIDDLE not in str([(report.message, report.value, report.hint) for report in loaded.reports])
    [secret] = _of_kind(_rendered(loaded, show_secrets=True), "Secret")
    assert secret["stringData"]["id_rsa"] == KEY


def test_defect_25_a_key_is_made_when_the_secret_is_made(tmp_path: Path) -> None:
    [entry] = _loaded(_job(plugins={"ssh": []}), tmp_path).jobs
    job = as_stored(entry.admitted)
    [once] = [
        extra_object for extra_object in owned_objects(job, entry.admitted.plugins) if isinstance(extra_object, Once)
    ]
    assert list(once.manifest["stringData"]) == ["config"]
    made = once.created_with(lambda kind: KeyPair(f"a new {kind} key", "its public half"))
    assert made["stringData"]["id_rsa"] == "a new rsa key"
    assert made["stringData"]["config"] == once.manifest["stringData"]["config"]


def test_defect_23_the_ray_dashboard_can_be_reached(tmp_path: Path) -> None:
    manifests = _rendered(load(str(ROOT / "examples" / "ray-plugin.yaml"), offline_context()))
    assert _of_kind(manifests, "NetworkPolicy") == []
    assert len(_of_kind(manifests, "Service")) == 2


def test_defect_22_waiting_is_let_in_where_quotas_and_restricted_pods_are_the_rule() -> None:
    manifests = _rendered(load(str(ROOT / "examples" / "pytorch-job.yaml"), offline_context()))
    waiting = [
        container
        for pod in _of_kind(manifests, "Pod")
        for container in pod["spec"].get("initContainers", [])
        if container["name"] == "wait-for-master"
    ]
    assert len(waiting) == 2
    for container in waiting:
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
        assert container["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_defect_22_the_master_is_found_before_it_is_ready() -> None:
    [service] = _of_kind(_rendered(load(str(ROOT / "examples" / "pytorch-job.yaml"), offline_context())), "Service")
    assert service["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("index", [10, 100])
def test_defect_32_the_highest_index_counts(index: int, tmp_path: Path) -> None:
    name = "n" * (63 - len(f"-worker-{index}"))
    assert _loaded(_job(name, [_task("worker", index + 1)]), tmp_path).is_good
    assert not _loaded(_job(name + "n", [_task("worker", index + 1)]), tmp_path).is_good
