"""The synchronous classes have the methods, parameters, results and documentation of the asynchronous ones."""

from __future__ import annotations

import inspect
import re

import pytest

import pumice
from pumice.client.async_run import AsyncForwardedPort
from pumice.client.sync_client import ForwardedPort

CLASSES = [
    (pumice.AsyncClient, pumice.Client),
    (pumice.AsyncRun, pumice.Run),
    (pumice.AsyncOwnedRun, pumice.OwnedRun),
    (AsyncForwardedPort, ForwardedPort),
]
FUNCTIONS = ("run", "start", "submit", "get", "runs")


def _public(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_")]


def _plain(text: str) -> str:
    """Remove the prefix that differs by intent: AsyncRun is Run, AsyncIterator is Iterator."""
    return re.sub(r"\bAsync(?=[A-Z])", "", text)


@pytest.mark.parametrize(("asynchronous", "synchronous"), CLASSES)
def test_both_classes_have_the_same_methods(asynchronous: type, synchronous: type) -> None:
    # The synchronous class calls these; users do not.
    internal = {"lease", "request", "result"}
    assert [name for name in _public(asynchronous) if name not in internal] == _public(synchronous)


@pytest.mark.parametrize(
    ("asynchronous", "synchronous", "name"),
    [(one, other, name) for one, other in CLASSES for name in (*_public(other), "__doc__")],
)
def test_both_classes_have_the_same_signatures(asynchronous: type, synchronous: type, name: str) -> None:
    one, other = getattr(asynchronous, name), getattr(synchronous, name)
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
