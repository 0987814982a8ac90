"""JSON patches that apply only to what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

JSON_PATCH: Final = "application/json-patch+json"


def replace_where(tests: Mapping[str, object], values: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a patch that sets values if the tested fields are as they were."""
    patch: list[dict[str, object]] = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    # `add` also replaces: a field that a default stands for may not exist.
    return patch + [{"op": "add", "path": path, "value": value} for path, value in values.items()]
