"""A tolerant view of a mapping in a user's document, with its path.

The rules about pods run on documents of any shape; the schema check reports wrong types. Here a value of the wrong type
counts as absent, and nothing raises. Only `is_blank` distinguishes the two, so that a rule does not report a field of
the wrong type as missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumice.model.findings import ABSENT, Finding, Path, warning


class View:
    __slots__ = ("at", "value")

    def __init__(self, value: object, at: Path) -> None:
        self.value: Mapping[object, object] = value if isinstance(value, Mapping) else {}
        self.at = at

    def get(self, key: str) -> object:
        return self.value.get(key)

    def has(self, key: str) -> bool:
        return self.value.get(key) is not None

    def is_blank(self, key: str) -> bool:
        """Return whether the field is absent, null or "", which Kubernetes treats alike in nearly all fields."""
        return self.value.get(key) in (None, "")

    def text(self, key: str) -> str:
        value = self.value.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        value = self.value.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, key: str) -> bool:
        return self.value.get(key) is True

    def denies(self, key: str) -> bool:
        return self.value.get(key) is False

    def child(self, key: str) -> View | None:
        value = self.value.get(key)
        return View(value, self.at / key) if isinstance(value, Mapping) else None

    def part(self, key: str) -> View:
        """Return the mapping under a key, or an empty one."""
        return View(self.value.get(key), self.at / key)

    def children(self, key: str) -> list[View]:
        """Return the mappings in the list under a key."""
        items = self.value.get(key)
        if not isinstance(items, list):
            return []
        return [View(item, self.at / key / index) for index, item in enumerate(items) if isinstance(item, Mapping)]

    def containers(self) -> list[View]:
        """Return the init containers and the containers of a pod spec."""
        return [*self.children("initContainers"), *self.children("containers")]

    def texts(self, key: str) -> list[tuple[Path, str]]:
        items = self.value.get(key)
        if not isinstance(items, list):
            return []
        return [(self.at / key / index, item) for index, item in enumerate(items) if isinstance(item, str)]

    def numbers(self, key: str) -> list[tuple[Path, int]]:
        items = self.value.get(key)
        if not isinstance(items, list):
            return []
        return [(self.at / key / index, item) for index, item in enumerate(items) if type(item) is int]

    def pairs(self, key: str) -> list[tuple[Path, str, object]]:
        """Return path, key and value of each entry of the map under a key."""
        entries = self.value.get(key)
        if not isinstance(entries, Mapping):
            return []
        return [(self.at / key / name, name, value) for name, value in entries.items() if isinstance(name, str)]

    def size(self, key: str) -> int:
        items = self.value.get(key)
        return len(items) if isinstance(items, (list, Mapping)) else 0

    def error(self, key: str, message: str, hint: str = "") -> Finding:
        """Return a finding about the field, with its value unless that is a mapping or list."""
        value = self.value.get(key)
        shown = ABSENT if value is None or isinstance(value, (Mapping, list)) else value
        return Finding(self.at / key, message, shown, hint)

    def missing(self, key: str, message: str = "is required", hint: str = "") -> Finding:
        return Finding(self.at / key, message, hint=hint)

    def warning(self, key: str, message: str, hint: str = "") -> Finding:
        finding = self.error(key, message, hint)
        return warning(finding.path, message, finding.value, hint)
