"""Errors in the words of Python: `scale=` instead of `--scale`, `run.stop()` instead of `pumice stop RUN`.

The layers below spell options as the command line does, and give hints in both forms. Only the classes of the public
API are decorated; the commands use what lies below them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from pumice.model.pumice_error import PumiceError

T = TypeVar("T")


@contextmanager
def python_words() -> Iterator[None]:
    try:
        yield
    except PumiceError as error:
        error.use_python_words()
        raise


def in_python_words(kind: type[T]) -> type[T]:
    """Decorate a class: the errors of its public methods are in the words of Python."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _wrapped(method))
    return kind


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with python_words():
                return await method(*args, **kwargs)

        return call_async

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with python_words():
            return method(*args, **kwargs)

    return call
