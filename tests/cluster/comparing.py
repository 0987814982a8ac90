"""Whether an object of the API server is what a manifest asks for: all that is asked for, whatever was added to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.cluster.api import Object

# By what the items of a list are told apart; other lists are compared item by item.
_KEYS = ("mountPath", "containerPort", "port", "key", "uid", "name")


def missing(expected: Any, actual: Any, path: str = "") -> Iterator[str]:
    """What is asked for and not there, a line each."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, value in expected.items():
            # Empty and absent are one thing to an API server.
            if value not in ({}, [], None, "") or actual.get(key) not in ({}, [], None, "", value):
                yield from missing(value, actual.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _missing_items(expected, actual, path)
    elif expected != actual:
        yield f"{path}: {expected!r}, but it is {actual!r}"


def _missing_items(expected: list[Any], actual: list[Any], path: str) -> Iterator[str]:
    key = next((key for key in _KEYS if expected and isinstance(expected[0], dict) and key in expected[0]), None)
    if key is None:
        if expected != actual:
            yield f"{path}: {expected!r}, but it is {actual!r}"
        return
    known = {item.get(key): item for item in actual}
    order = [item[key] for item in expected]
    if [item.get(key) for item in actual if item.get(key) in order] != order:
        yield f"{path}: {order} in this order, but they are {list(known)}"
    for item in expected:
        yield from missing(item, known.get(item[key]), f"{path}[{item[key]}]")


def as_stored(manifest: Object) -> Object:
    """A manifest as an API server would hold it, as far as it can be known: of a Secret only the names of its keys."""
    if manifest["kind"] != "Secret":
        return manifest
    return {
        **{key: value for key, value in manifest.items() if key not in ("stringData", "data")},
        "keys": _keys(manifest),
    }


def _keys(secret: Object) -> list[str]:
    return sorted({*secret.get("data", {}), *secret.get("stringData", {})})
