"""Calls the values of the page from tests that have no event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from pumice.client.backend import Backend
from pumice.ui.page_data import PageData


@dataclass(slots=True)
class Called:
    """The values of a page, each when it is asked for."""

    backend: Backend
    data: PageData = field(init=False)

    def __post_init__(self) -> None:
        self.data = PageData(self.backend)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Coroutine[Any, Any, Any]] = getattr(self.data, name)

        def call(*args: Any) -> Any:
            return asyncio.run(method(*args))

        return call
