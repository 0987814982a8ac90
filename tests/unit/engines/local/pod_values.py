"""A pod and what is known about it, for the tests of its translation."""

from __future__ import annotations

from typing import Any

from pumice.engines.local.container_env import PodFacts
from pumice.model.job import Manifest
from pumice.model.quantity import Quantity

FACTS = PodFacts(
    name="train-worker-0",
    namespace="lab",
    uid="uid-1",
    ip="10.77.0.10",
    hostname="train-worker-0",
    node_name="laptop",
    host_ip="192.0.2.1",
    allocatable={"cpu": Quantity.parse("3500m"), "memory": Quantity.parse("8Gi")},
)


def a_pod(*containers: Manifest, **spec: Any) -> Manifest:
    metadata = {
        "name": "train-worker-0",
        "namespace": "lab",
        "labels": {"b": "2", "a.example/x": "1"},
        "annotations": {"note": 'say "hi"\n\tto \\ all\x01 é\u200b\U000e0001'},
    }
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}
