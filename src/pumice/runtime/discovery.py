"""Finds the plugins of third parties that are installed beside Pumice, and says which of them cannot be used.

A package announces its plugin by an entry point of the group `pumice.plugins`. Whatever goes wrong while one is loaded
is kept with its name; it never stops Pumice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from pumice.plugins.base import Base
from pumice.plugins.registry import BUILTINS, Registry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "pumice.plugins"
T = TypeVar("T")


def discover(found: Iterable[EntryPoint] | None = None) -> Registry:
    """The registry with all plugins that are installed. All are loaded, also those of Pumice itself.

    A program that runs for long may be upgraded meanwhile, and must not load modules of another version then.
    """
    tuple(BUILTINS.values())
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes a tenth of `pumice validate`

    import pumice.plugins.guard  # noqa: F401, PLC0415 - for the plugins that are found here

    third_party: dict[str, type[Base]] = {}
    broken: dict[str, str] = {}
    for entry in entry_points(group=GROUP) if found is None else found:
        try:
            plugin = _load(entry, third_party)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing a stranger's module may raise anything
            broken[entry.name] = (
                f"{type(error).__name__}: {error}" if not isinstance(error, _UnusableError) else str(error)
            )
        else:
            third_party[entry.name] = plugin
    return Registry(third_party, broken)


def discover_on_demand() -> Registry:
    """The same registry, whose third-party plugins are looked for when a job names a plugin that is not built in."""
    found = cache(discover)
    return Registry(_Late(lambda: found().third_party), _Late(lambda: found().broken))


class _Late(Mapping[str, T], Generic[T]):
    """A mapping that is made when it is first read."""

    def __init__(self, make: Callable[[], Mapping[str, T]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> T:
        return self._make()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._make())

    def __len__(self) -> int:
        return len(self._make())


class _UnusableError(Exception):
    """What was loaded is not a plugin that can be used."""


def _load(entry: EntryPoint, known: dict[str, type[Base]]) -> type[Base]:
    if entry.name in BUILTINS:
        raise _UnusableError(f"{entry.value} has the name of a built-in plugin")
    if entry.name in known:
        raise _UnusableError(f"{entry.value} has the name of another installed plugin")
    plugin = entry.load()
    if not (isinstance(plugin, type) and issubclass(plugin, Base) and dataclasses.is_dataclass(plugin)):
        raise _UnusableError(f"{entry.value} is not a dataclass that inherits from pumice.plugins.base.Base")
    if plugin.name != entry.name:
        raise _UnusableError(f"{entry.value} calls itself {plugin.name!r}, its entry point {entry.name!r}")
    # A plain string is a sequence of strings, too, and not what was meant.
    words: tuple[object, ...] = (plugin.requires, plugin.example)
    if not all(isinstance(one, tuple | list) and all(isinstance(word, str) for word in one) for one in words):
        raise _UnusableError(f"{entry.value}: requires and example must be tuples of strings")
    plugin.options()  # An option that cannot be described would fail later, in the middle of a job.
    return plugin
