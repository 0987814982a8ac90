"""--fit and --ignore: what is left out, what is lowered, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.admit import Admitted, admit
from pumice.engines.local.preparation.scaling import fitted, gang_fit, ignoring, stored
from pumice.engines.local.scheduling.machine import Machine
from pumice.plugins.shaping import owned_objects, pods
from pumice.runtime.offline_context import offline_context
from pumice.store.run_errors import InvalidOption

LAPTOP = Machine((0, 1), 2, 8 * 2**30, all_memory=16 * 2**30)


def job(resources: dict[str, Any], replicas: int = 2, **fields: Any) -> Admitted:
    container = {"name": "c", "image": "x", "command": ["true"], "resources": resources}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"tasks": [{"name": "a", "replicas": replicas, "template": template}], **fields}
    document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    admitted = admit(document, offline_context())
    assert admitted.is_good, admitted.findings
    return stored(admitted, {})


def resources_of(admitted: Admitted) -> object:
    return admitted.job.spec.tasks[0].pod_spec["containers"][0].get("resources")


@pytest.mark.parametrize(
    ("before", "machine", "after", "changes"),
    [
        pytest.param(
            {"limits": {"nvidia.com/gpu": 8, "rdma/hca": 1}},
            LAPTOP,
            {},
            [
                "a: nvidia.com/gpu 8 is left out: this machine has none",
                "a: rdma/hca 1 is left out: this machine has none",
            ],
            id="devices that the machine lacks",
        ),
        pytest.param(
            {"limits": {"cpu": "16", "memory": "128Gi"}, "requests": {"cpu": "8"}},
            LAPTOP,
            {"limits": {"cpu": "2", "memory": "16Gi"}, "requests": {"cpu": "1", "memory": "3584Mi"}},
            [
                "a: cpu request 8 is lowered to 1",
                "a: cpu limit 16 is lowered to 2",
                "a: memory request 128Gi is lowered to 3584Mi",
                "a: memory limit 128Gi is lowered to 16Gi",
            ],
            id="requests until the gang fits, limits to what the machine has",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 8}},
            Machine((0, 1), 2, 2**33, ("0", "1")),
            {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
            ["a: nvidia.com/gpu request 8 is lowered to 1"],
            id="GPUs that the machine has are shared",
        ),
        pytest.param({"requests": {"cpu": "1"}}, LAPTOP, {"requests": {"cpu": "1"}}, [], id="what fits stays as it is"),
    ],
)
def test_fitted(before: dict[str, Any], machine: Machine, after: object, changes: list[str]) -> None:
    found = fitted(job(before), machine)
    assert (resources_of(found.admitted), list(found.changes)) == (after, changes)
    assert gang_fit(found.admitted, machine.free()).fits


def test_pods_beyond_the_gang_fit_on_their_own() -> None:
    found = fitted(job({"requests": {"cpu": "3"}}, 4, minAvailable=1), LAPTOP)
    assert resources_of(found.admitted) == {"requests": {"cpu": "2"}}


def test_what_plugins_derive_from_a_resource_follows() -> None:
    mpi = job({"limits": {"cpu": "16"}}, plugins={"mpi": ["--master=a", "--worker=a"]})
    plain = fitted(mpi, LAPTOP).admitted
    files = [
        each["data"] for each in owned_objects(plain.job, plain.plugins) if isinstance(each, dict) and "data" in each
    ]
    assert "slots=2" in files[0]["mpi.hostfile"]
    torch = job({"limits": {"nvidia.com/gpu": 8}}, plugins={"pytorch": ["--master=a", "--worker=a"]})
    assert _env(torch)["PET_NPROC_PER_NODE"] == "8"
    assert "PET_NPROC_PER_NODE" not in _env(fitted(torch, LAPTOP).admitted)


def _env(admitted: Admitted) -> dict[str, str]:
    first = next(iter(pods(admitted.job, admitted.plugins)))
    return {each["name"]: each.get("value", "") for each in first.containers[0]["env"]}


def test_ignore_leaves_one_resource_out_and_refuses_an_unknown_one() -> None:
    admitted = job({"limits": {"nvidia.com/gpu": 8, "cpu": 1}})
    found = ignoring(admitted, ["nvidia.com/gpu"])
    assert resources_of(found.admitted) == {"limits": {"cpu": 1}}
    assert found.changes == ("a: nvidia.com/gpu 8 is left out: --ignore",)
    assert ignoring(admitted, []).admitted is admitted
    with pytest.raises(InvalidOption, match=r"nvidia.com/gpus: the job asks for no resource") as error:
        ignoring(admitted, ["nvidia.com/gpus"])
    assert error.value.hint == "did you mean nvidia.com/gpu? it has cpu, nvidia.com/gpu"
