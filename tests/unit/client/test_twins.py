"""The synchronous classes have the methods, parameters, results and documentation of the asynchronous ones."""

from __future__ import annotations

import inspect
import re

import pytest

import pumice

TWINS = [
    (pumice.AsyncClient, pumice.Client),
    (pumice.AsyncRun, pumice.Run),
    (pumice.AsyncOwnedRun, pumice.OwnedRun),
]
FUNCTIONS = ("run", "start", "submit", "get", "runs")


def _public(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


def _plain(text: str) -> str:
    """What differs by nature: AsyncRun is Run, AsyncIterator is Iterator."""
    return re.sub(r"\bAsync(?=[A-Z])", "", text)


@pytest.mark.parametrize(("twin", "sync"), TWINS)
def test_twins_have_the_same_methods(twin: type, sync: type) -> None:
    # What only the other twin calls is no part of either.
    internal = {"lease", "log_batches", "request", "result"}
    assert [name for name in _public(twin) if name not in internal] == _public(sync)


@pytest.mark.parametrize(
    ("twin", "sync", "name"), [(twin, sync, name) for twin, sync in TWINS for name in (*_public(sync), "__doc__")]
)
def test_twins_have_the_same_signatures(twin: type, sync: type, name: str) -> None:
    one, other = getattr(twin, name), getattr(sync, name)
    if isinstance(one, property) or name == "__doc__":
        assert getattr(one, "__doc__", one) == getattr(other, "__doc__", other)
        return
    assert _plain(str(inspect.signature(one))) == str(inspect.signature(other))
    assert str(other.__doc__).startswith(str(one.__doc__).rstrip().splitlines()[0])
    assert inspect.iscoroutinefunction(one) or "Iterator" in str(inspect.signature(one))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_methods_of_a_default_client(name: str) -> None:
    method = inspect.signature(getattr(pumice.Client, name))
    without_self = method.replace(parameters=list(method.parameters.values())[1:])
    assert inspect.signature(getattr(pumice, name)) == without_self
