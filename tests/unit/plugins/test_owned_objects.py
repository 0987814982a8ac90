from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pumice.model.job import Job, Manifest
from pumice.model.objects import Once, OwnedObject
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.plugins.shaping import manifest_of, owned_objects, payload_size
from tests.builders import a_container, a_job, a_task, a_template


@dataclass(frozen=True, slots=True)
class Maker(Base):
    made: tuple[Any, ...] = ()

    def objects(self, job: Job) -> Iterable[OwnedObject]:  # noqa: ARG002 - the hook's signature
        return self.made


def thing(kind: str, name: str = "x", **body: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **body}


def once(name: str = "x") -> Once:
    return Once(thing("Secret", name, stringData={"config": ""}), lambda _: {})


ONCE = once()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [
                [thing("Lease"), thing("NetworkPolicy"), ONCE],
                [thing("ConfigMap"), thing("Service", "b"), thing("Service", "a")],
            ],
            [
                thing("Service", "b"),
                thing("Service", "a"),
                thing("ConfigMap"),
                ONCE,
                thing("NetworkPolicy"),
                thing("Lease"),
            ],
            id="a fixed order of kinds, unknown ones last",
        ),
        pytest.param(
            [[thing("ConfigMap", data={"a": "1", "b": "2"})], [thing("ConfigMap", data={"b": "3", "c": "4"})]],
            [thing("ConfigMap", data={"a": "1", "b": "3", "c": "4"})],
            id="data of one name is united",
        ),
        pytest.param(
            [[thing("ConfigMap")], [thing("ConfigMap", data={"a": "1"})]],
            [thing("ConfigMap", data={"a": "1"})],
            id="no data so far",
        ),
        pytest.param(
            [[thing("Service", spec={"a": 1})], [thing("Service", spec={"b": 1})]],
            [thing("Service", spec={"a": 1})],
            id="without data the first counts",
        ),
        pytest.param([[ONCE], [thing("Secret", data={"a": "1"})]], [ONCE], id="what is made once is not added to"),
        pytest.param(
            [[thing("Secret", data={"a": "1"})], [ONCE]], [thing("Secret", data={"a": "1"})], id="nor does it add"
        ),
    ],
)
def test_objects_are_merged_and_sorted(made: Sequence[Sequence[OwnedObject]], expected: list[OwnedObject]) -> None:
    assert owned_objects(a_job(), [Maker(tuple(objects)) for objects in made]) == expected


def test_mpi_adds_its_hostfile_to_the_hosts() -> None:
    job = a_job(a_task("master"), a_task("worker", 1, a_template(a_container(resources={"limits": {"cpu": 2}}))))
    found = owned_objects(job, Registry().resolve(Registry().with_required({"mpi": []})).plugins)
    assert [manifest_of(extra_object)["metadata"]["name"] for extra_object in found] == [
        "train",
        "train-svc",
        "train-ssh",
    ]
    assert manifest_of(found[1])["data"] == {
        "master.host": "train-master-0.train",
        "VC_MASTER_HOSTS": "train-master-0.train",
        "VC_MASTER_NUM": "1",
        "worker.host": "train-worker-0.train",
        "VC_WORKER_HOSTS": "train-worker-0.train",
        "VC_WORKER_NUM": "1",
        "mpi.hostfile": "train-worker-0.train slots=2\n",
    }


@pytest.mark.parametrize(
    ("manifest", "size"),
    [
        pytest.param(thing("Service"), 0, id="nothing"),
        pytest.param(thing("ConfigMap", data=None), 0, id="null"),
        pytest.param(thing("ConfigMap", data={"key": "value"}), 8, id="key and value"),
        pytest.param(thing("ConfigMap", data={"a": "äß"}), 5, id="bytes, not letters"),
        pytest.param(thing("Secret", data={"a": "b"}, stringData={"c": "d"}), 4, id="both kinds"),
    ],
)
def test_payload_size(manifest: Manifest, size: int) -> None:
    assert payload_size(manifest) == size
