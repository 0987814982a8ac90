"""The indexes of the cache: which objects belong to which job, and which jobs a change enqueues. No server."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.cache.decode_jobs import CachedJob, decode_command
from pumice.engines.kubernetes.cache.decode_pods import CachedObject, CachedPod, decode_pod
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.snapshot import JobKey
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import a_document

A, B = JobKey("lab", "a"), JobKey("lab", "b")


class Cluster:
    def __init__(self) -> None:
        self.enqueued: list[JobKey] = []
        self.cache = ClusterCache(cast(Client, None), kubernetes_types().types, (), self.enqueued.append)

    def taken(self) -> list[JobKey]:
        taken, self.enqueued[:] = list(dict.fromkeys(self.enqueued)), []
        return taken


def a_pod(owner: str, version: int, uid: str = "u1", **status: Any) -> CachedPod:
    reference = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": owner, "uid": f"uid-{owner}"}
    metadata = {
        "name": "p",
        "namespace": "lab",
        "uid": uid,
        "resourceVersion": str(version),
        "annotations": {keys.TASK_SPEC: "worker", keys.TASK_INDEX: "0"},
        "ownerReferences": [{**reference, "controller": True}],
    }
    pod = decode_pod(json.dumps({"metadata": metadata, "status": status}).encode())
    assert pod is not None
    return pod


def a_job(name: str, version: int = 1, claims: tuple[str, ...] = ()) -> CachedJob:
    volumes = [{"mountPath": f"/{claim}", "volumeClaimName": claim} for claim in claims]
    document = a_document(volumes=volumes)
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return CachedJob(msgspec.convert({**document, "metadata": metadata}, Job))


def a_claim(name: str) -> CachedObject:
    return CachedObject("lab", name, f"uid-{name}", "1")


def test_a_pod_belongs_to_one_job_at_a_time() -> None:
    cluster = Cluster()
    cluster.cache.pods.put(a_pod("a", 1))
    cluster.taken()
    cluster.cache.pods.put(a_pod("b", 2))
    assert list(cluster.cache.pods_of) == [B]
    assert cluster.taken() == [A, B]
    cluster.cache.pods.remove(a_pod("b", 2))
    assert dict(cluster.cache.pods_of) == {}


def test_an_irrelevant_change_of_a_pod_enqueues_nothing() -> None:
    cluster = Cluster()
    cluster.cache.pods.put(a_pod("a", 1, phase="Running"))
    cluster.taken()
    cluster.cache.pods.put(a_pod("a", 2, phase="Running", qosClass="Burstable"))
    assert cluster.taken() == []
    cluster.cache.pods.put(a_pod("a", 3, phase="Failed"))
    assert cluster.taken() == [A]


def test_a_recreated_pod_replaces_the_old_one() -> None:
    cluster = Cluster()
    cluster.cache.pods.put(a_pod("a", 1))
    cluster.cache.pods.put(a_pod("a", 5, uid="u2"))
    assert [pod.uid for pod in cluster.cache.pods_of[A].values()] == ["u2"]


def test_a_command_has_one_target_at_a_time() -> None:
    cluster = Cluster()
    for version, name in enumerate("ab", 1):
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name}
        metadata = {"name": "stop", "namespace": "lab", "uid": "u1", "resourceVersion": str(version)}
        command = decode_command(json.dumps({"metadata": metadata, "target": target, "action": "AbortJob"}).encode())
        assert command is not None
        cluster.cache.commands.put(command)
    assert list(cluster.cache.commands_of) == [B]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param("data", [A], id="one job"),
        pytest.param("shared", [A, B], id="two jobs"),
        pytest.param("other", [], id="no job"),
    ],
)
def test_a_claim_enqueues_the_jobs_that_use_it(claim: str, expected: list[JobKey]) -> None:
    cluster = Cluster()
    cluster.cache.jobs.put(a_job("a", claims=("data", "shared")))
    cluster.cache.jobs.put(a_job("b", claims=("shared",)))
    cluster.taken()
    cluster.cache.claims.put(a_claim(claim))
    assert cluster.taken() == expected
    cluster.cache.claims.remove(a_claim(claim))
    assert cluster.taken() == expected


def test_a_deleted_job_leaves_no_index_entry() -> None:
    cluster = Cluster()
    job = a_job("a", claims=("data",))
    cluster.cache.jobs.put(job)
    cluster.cache.pods.put(a_pod("a", 1))
    cluster.cache.pods.remove(a_pod("a", 1))
    cluster.cache.jobs.remove(job)
    cache = cluster.cache
    assert not any((cache.pods_of, cache.commands_of, cache.owned_objects_of, cache._claimants))
