"""Loads the shipped schema of Kubernetes' own types, which the pure layers take as a value."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from pumice.model.shape import ObjectType


class KubernetesTypes(msgspec.Struct, frozen=True):
    kubernetes: str
    types: dict[str, ObjectType]


@cache
def kubernetes_types() -> KubernetesTypes:
    return msgspec.json.decode(files("pumice").joinpath("data", "kubernetes.json").read_bytes(), type=KubernetesTypes)
