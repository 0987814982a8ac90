"""Loads the shipped schema of Kubernetes' own types, which the pure layers take as a value."""

from __future__ import annotations

from functools import cache

import msgspec

from pumice.model.shape import ObjectType


class KubernetesTypes(msgspec.Struct, frozen=True):
    kubernetes: str
    types: dict[str, ObjectType]


@cache
def kubernetes_types() -> KubernetesTypes:
    # pathlib and importlib.resources take longer to load than the file to read
    with open(f"{__file__.rpartition('/runtime/')[0]}/data/kubernetes.json", "rb") as file:  # noqa: PTH123 - see above
        return msgspec.json.decode(file.read(), type=KubernetesTypes)
