from __future__ import annotations

import re

from pumice.model.scalars import _CHECKS
from pumice.runtime.kubernetes_types import kubernetes_types


def test_the_shipped_schema_is_read_once() -> None:
    assert kubernetes_types() is kubernetes_types()
    assert re.fullmatch(r"v?1\.\d+(\.\d+)?", kubernetes_types().kubernetes)


def test_every_type_that_a_field_names_is_there() -> None:
    """An unknown name would fail in the middle of a user's file."""
    types = kubernetes_types().types
    named = {re.sub(r"^(\[\]|\{\})+", "", expression) for kind in types.values() for expression in kind.fields.values()}
    assert named <= {*types, *_CHECKS, "object"}


def test_the_types_that_we_start_from_are_there() -> None:
    wanted = {
        "PodTemplateSpec",
        "PersistentVolumeClaimSpec",
        "ObjectMeta",
        "ConfigMap",
        "Secret",
        "PersistentVolumeClaim",
    }
    assert wanted <= set(kubernetes_types().types)
