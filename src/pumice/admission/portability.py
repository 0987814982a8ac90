"""Fields that only Pumice knows: Volcano's API server drops them in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pumice.model.findings import ROOT, Finding, Path, warning
from pumice.model.job import PUMICE_FIELDS


def check_portability(document: Mapping[str, object]) -> Iterator[Finding]:
    for field in PUMICE_FIELDS:
        for path in paths_of_field(document, field):
            yield warning(path, "only Pumice knows this field; Volcano drops it in silence")


def paths_of_field(document: object, field: str) -> list[Path]:
    """Return where a document sets a field such as `spec.tasks[].maxRestarts`."""
    found: list[tuple[Path, object]] = [(ROOT, document)]
    for step in field.split("."):
        name = step.removesuffix("[]")
        parents = [(at, value) for at, value in found if isinstance(value, Mapping)]
        found = [(at / name, value[name]) for at, value in parents if value.get(name) is not None]
        if step.endswith("[]"):
            lists = [(at, value) for at, value in found if isinstance(value, list)]
            found = [(at / index, item) for at, items in lists for index, item in enumerate(items)]
    return [at for at, _ in found]
