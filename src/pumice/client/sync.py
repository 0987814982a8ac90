"""Makes synchronous methods from asynchronous ones, with types that type checkers see.

    class Run:
        status = sync(AsyncRun.status)

`Run().status()` runs `AsyncRun.status` of its `_core` on the private loop. Parameters, result and documentation are
those of the asynchronous method.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from pumice.client.loop_thread import private_loop

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
R_co = TypeVar("R_co", covariant=True)


class Method(Protocol[P, R_co]):
    """A function of a class, as type checkers see it."""

    @overload
    def __get__(self, instance: None, owner: type, /) -> Callable[Concatenate[Any, P], R_co]: ...

    @overload
    def __get__(self, instance: object, owner: type, /) -> Callable[P, R_co]: ...


@overload
def sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Method[P, T]: ...


@overload
def sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], wrap: Callable[[T], U]) -> Method[P, U]: ...


def sync(method: Callable[..., Coroutine[Any, Any, Any]], wrap: Callable[[Any], Any] | None = None) -> Any:
    """Return the method without `await`; `wrap` makes the result from that of the asynchronous method."""

    def call(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # for pytest and IPython, which show the code of the caller instead
        result = private_loop().call(method(self._core, *args, **options))
        return result if wrap is None else wrap(result)

    return _documented(call, method)


def sync_iterator(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Method[P, Iterator[T]]:
    """Return the method with an iterator for its asynchronous iterator."""

    def call(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        __tracebackhide__ = True
        return private_loop().iterate(method(self._core, *args, **options))

    return cast("Method[P, Iterator[T]]", _documented(call, method))


def _documented(call: Any, method: Any) -> Any:
    """Give the function the name, the signature and the documentation of the asynchronous one."""
    while (wrapped := getattr(method, "__wrapped__", None)) is not None:
        method = wrapped
    # A copy that is never called: `inspect` reads its signature, with the result of the synchronous method.
    shown = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__)
    shown.__kwdefaults__ = method.__kwdefaults__
    result = str(method.__annotations__.get("return", "")).replace("Async", "")
    shown.__annotations__ = {**method.__annotations__, "return": result}
    call.__wrapped__, call.__annotations__, call.__doc__ = shown, shown.__annotations__, method.__doc__
    call.__name__ = call.__qualname__ = method.__name__
    return call
